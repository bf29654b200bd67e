"""`python -m agentlight_run` is `agentlight-run`."""

from __future__ import annotations

import sys

from agentlight_run.cli import main

sys.exit(main())
