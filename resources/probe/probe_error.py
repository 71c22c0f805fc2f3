# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception of the probe. Used by tpscope_probe.py and the modules beside it."""


class ProbeError(Exception):
    """A failure with the stage it belongs to; __cause__ is the library's exception, if any."""

    def __init__(self, stage, message, module=None):
        super().__init__(message)
        self.stage = stage
        self.module = module  # name of the innermost module whose forward raised, where known
