"""The paper's experiments, a file each: what is compared with what, and the figures that show
it.
"""
