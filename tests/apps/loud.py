"""Runs a file's tests; says at the end which of them could not run here, and why."""

import sys
import unittest


def main(**options):
    result = unittest.main(exit=False, **options).result
    for test, reason in result.skipped:
        print("SKIPPED: %s because %s" % (test.id().replace("__main__.", ""), reason), file=sys.stderr)
    sys.exit(not result.wasSuccessful())
