"""Many runs at once: worker processes on this machine or on a Ray cluster."""
