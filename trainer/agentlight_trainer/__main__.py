"""`python -m agentlight_trainer`, and so `torchrun -m agentlight_trainer`."""

from __future__ import annotations

import sys

from agentlight_trainer.cli import main

sys.exit(main())
