"""What it costs, measured: `dualac bench`.

Figures are ratios within one run, of things timed in turns; run it on an otherwise idle machine.
"""
