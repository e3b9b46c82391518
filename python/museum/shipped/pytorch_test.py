"""One of PyTorch's own tests of torch.distributed, as its wheel has it, on processes that it forks itself.

  pytorch_test.py NAME [RANKS]
"""
import os
import sys
import tempfile
import unittest

NAME = sys.argv[1]
RANKS = sys.argv[2] if len(sys.argv) > 2 else "8" if "_group_" in NAME else "3"  # Tests of groups want eight.
FOLDER = tempfile.mkdtemp()
for part in ("barrier", "test_dir", "init_dir"):
    os.mkdir(os.path.join(FOLDER, part))
# PyTorch reads these when its tests are imported.
os.environ.update(BACKEND="gloo", WORLD_SIZE=RANKS, TEMP_DIR=FOLDER, DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="100",
                  INIT_METHOD=f"file://{FOLDER}/init_dir/shared_init_file")

import torch._dynamo  # noqa: E402, F401  Or each rank would import it, while the others wait.
import torch.multiprocessing  # noqa: E402
from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest, TestDistBackend)


class OnGloo(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if __name__ == "__main__":
    outcome = unittest.TextTestRunner().run(OnGloo(NAME))
    sys.exit(not outcome.wasSuccessful() or bool(outcome.skipped))
