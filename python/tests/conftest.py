"""The tests see the package of the build tree, or the one that is installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
