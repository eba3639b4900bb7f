"""Many runs: what is compared with what, carried out on one machine or on a cluster, and found
again on disk.
"""
