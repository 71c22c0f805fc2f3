# SPDX-License-Identifier: GPL-3.0-or-later
"""The prompts of a request as a batch: shorter ones are padded on the left, and positions count from a prompt's own first
token, as generate() does it. Used by probe_latency.py, probe_logits.py and probe_gradients.py."""

import torch


class Batch:
    def __init__(self, rows):
        longest = max(len(row) for row in rows)
        self.padding = torch.tensor([longest - len(row) for row in rows])
        self.padded = bool(self.padding.any())
        self.ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])

    @property
    def length(self):
        return self.ids.shape[1]

    def masked(self):
        """[B, T]: true at padding."""
        return torch.arange(self.length) < self.padding[:, None]

    def inputs(self):
        """What a prefill is called with beside the ids."""
        if not self.padded:
            return {}
        mask = (~self.masked()).long()
        return {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}

    def step_inputs(self, index):
        """What the decode step of a number, from 0, is called with beside its ids."""
        position = torch.full((self.ids.shape[0], 1), self.length + index)
        if not self.padded:
            return {"position_ids": position}
        seen = torch.arange(self.length + index + 1) >= self.padding[:, None]
        return {"attention_mask": seen.long(), "position_ids": position - self.padding[:, None]}

    def labels(self):
        """Padding has none, and neither has the token behind it, which nothing real precedes."""
        if not self.padded:
            return self.ids
        unlabelled = torch.arange(self.length) <= self.padding[:, None]
        return self.ids.masked_fill(unlabelled, -100)

    def real(self, logits):
        """Logits [B, T, V] with zeros at padding, where no promise holds."""
        return logits.masked_fill(self.masked()[..., None], 0.0) if self.padded else logits
