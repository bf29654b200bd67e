"""`python -m agentlight_trainer` is `agentlight-train`."""

import sys

from agentlight_trainer.cli import main

sys.exit(main())
