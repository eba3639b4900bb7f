"""The paper's experiments, a file each: what is compared, and the figures that show it."""
