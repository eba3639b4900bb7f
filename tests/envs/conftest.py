"""The toys are imported by name, as a user's own module would be; how fast the machine is decides
no test.
"""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
