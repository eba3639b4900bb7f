"""Many runs: compared, carried out on one machine or a cluster, and found again on disk."""
