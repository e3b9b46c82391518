"""Where attention's results lie when 16-bit numbers go in and everything is computed in f32."""

import os
import sys

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import gpt_reference as reference  # noqa: E402

F32 = 2.0**-24


def balls(qkv, grad, causal):
    """(centre, radius) in f64 of the result and of the three gradients."""
    q, k, v, g = (reference.Ball(x.detach().double().numpy(), u=F32) for x in (*qkv, grad))
    shape = (q.c.shape[1], k.c.shape[1])
    keep = numpy.tril(numpy.ones(shape)) if causal else numpy.ones(shape)
    y, saved = reference.attention(q, k, v, keep)
    all_of = (y, *reference.attention_backward(g, saved))
    return [(torch.from_numpy(b.c.astype(numpy.float64)),
             torch.from_numpy(b.r.astype(numpy.float64) * (1 + 2.0**-10))) for b in all_of]
