"""``python -m slotwise``."""

import sys

from slotwise.cli import main

sys.exit(main())
