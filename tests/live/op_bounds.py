"""How far two correct evaluations of one operation may lie apart.

Notation: u is the unit roundoff of the dtype, g(n) = n u / (1 - n u) (Higham, Accuracy and
Stability, lemma 3.1). A sum of n products in any order, with or without fma, errs by at most g(n)
* sum |a b|. An elementary function of either library errs by at most 2 units in the last place, 4
u of the value (glibc states 1 for exp, log and erf, 2 for tanh; SLEEF's u10 functions 1.0). Each
function below returns, for the result and for each gradient, a bound B on the error of one
evaluation; two evaluations differ by at most 2 B. Bounds are formed in f64 and drop terms of order
u squared against a factor of 1.01.

Every function takes f64 leaves and constants, then the gradient of the result and u.
"""

import math

import torch
import torch.nn.functional as F

UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}


def g(n, u):
    return 1.01 * n * u / (1.0 - n * u)


def of_products(function, counts):
    """A function that is linear in each leaf: the bound is the function of absolute values, with
    counts[i] roundings in a term of the result (i = 0) and of leaf i's gradient."""
    def bound(leaves, grad, u):
        leaves = [x.abs().requires_grad_() for x in leaves]
        y = function(*leaves)
        y.backward(grad.abs())
        return [g(n, u) * m for n, m in zip(counts, [y.detach()] + [x.grad for x in leaves])]
    return bound


def tanh(leaves, grad, u):
    # Forward 4u|y|. Backward g (1 - y^2): y off by 4u|y| moves y^2 by 8u y^2; square, difference
    # and product round once each.
    y = torch.tanh(leaves[0])
    return [g(4, u) * y.abs(), grad.abs() * (g(8, u) * y**2 + g(3, u))]


def exp(leaves, grad, u):
    # Backward g y: y off by 4u of itself, one product.
    y = torch.exp(leaves[0])
    return [g(4, u) * y, grad.abs() * g(5, u) * y]


def log(leaves, grad, u):
    # Backward g / x, in both a division: equal bits.
    return [g(4, u) * torch.log(leaves[0]).abs(), None]


def sigmoid(leaves, grad, u):
    # exp 4u, the sum u more, the quotient u more: 6u of y. Backward g (1 - y) y: 1 - y is off by
    # 6u y + u, y by 6u of itself, two products.
    y = torch.sigmoid(leaves[0])
    return [g(6, u) * y, grad.abs() * (y * g(6, u) * y + g(9, u) * y)]


def gelu_erf(leaves, grad, u):
    # t = x / sqrt 2 is off by 2u t, which moves erf by (2 / sqrt pi) exp(-t^2) 2u t; erf itself
    # adds 4u, 1 + erf one rounding of at most 2u: cdf is off by d.
    x = leaves[0]
    t = x / math.sqrt(2)
    d = u * (1.13 * t.abs() * torch.exp(-t**2) + 3.0) * 1.01
    cdf = 0.5 * (1 + torch.erf(t))
    # The density: x^2 / 2 is off by 2u of itself, exp 4u, constant and product 2u; times x one
    # more.
    density = torch.exp(-x**2 / 2) / math.sqrt(2 * math.pi)
    slope = d + (x * density).abs() * u * (x**2 + 8) + g(2, u) * (cdf + (x * density).abs())
    return [x.abs() * d + g(3, u) * (x * cdf).abs(), grad.abs() * slope * 1.01]


def gelu_tanh(leaves, grad, u):
    # The cubic's two terms have the sign of x, so the inner value is off by 8u of itself; tanh
    # adds 4u, the sum 1 + tanh at most 2u.
    x = leaves[0]
    k = math.sqrt(2 / math.pi)
    inner = k * (x + 0.044715 * x**3)
    t = torch.tanh(inner)
    steep = 1 - t**2
    d = u * (8 * inner.abs() * steep + 4)
    inner_slope = k * (1 + 3 * 0.044715 * x**2)
    left = 0.5 * (d + 2 * u)
    right = 0.5 * x.abs() * inner_slope * (2 * d + 3 * u + 9 * u * steep)
    size = 0.5 * (1 + t).abs() + (0.5 * x * steep * inner_slope).abs()
    y = 0.5 * x * (1 + t)
    return [1.01 * (0.5 * x.abs() * (d + 2 * u) + 3 * u * y.abs()),
            1.01 * grad.abs() * (left + right + 3 * u * size)]


def softmax(leaves, grad, u):
    # x - max rounds: exp moves by u |x - max|, R u at most; exp 4u; n - 1 additions of positive
    # terms; the quotient: y is off by e = (2 R + n + 10) u of itself. Backward y (g - sum g y):
    # the sum is off by (e + g(n + 1)) S with S = sum |g| y; difference and product round.
    x = leaves[0]
    n = x.shape[-1]
    y = torch.softmax(x, -1)
    spread = (x.max(-1, keepdim=True).values - x).max(-1, keepdim=True).values
    e = 1.01 * u * (2 * spread + n + 10)
    total = (grad.abs() * y).sum(-1, keepdim=True)
    return [e * y, y * (grad.abs() + total) * (2 * e + g(n + 4, u))]


def log_probs(x, u):
    """The error of x - max - log(sum), whichever difference is formed first."""
    n = x.shape[-1]
    top = x.max(-1, keepdim=True).values
    away = top - x
    log_sum = torch.log(torch.exp(-away).sum(-1, keepdim=True))
    spread = away.max(-1, keepdim=True).values
    # The sum of exponentials is off by (spread + 4 + n) u of itself, which log turns absolute.
    return 1.01 * u * (2 * (x.abs() + top.abs() + log_sum) + spread + n + 4 + 5 * log_sum)


def log_softmax(leaves, grad, u):
    # Backward g - p sum g: p = exp(result) moves by the result's error, exp 4u.
    x = leaves[0]
    e = log_probs(x, u)
    p = torch.softmax(x, -1)
    total = grad.abs().sum(-1, keepdim=True)
    return [e, p * total * (e + g(x.shape[-1] + 6, u)) + g(2, u) * (grad.abs() + p * total)]


def cross_entropy(labels):
    def bound(leaves, grad, u):
        # The mean of b log probabilities; backward (p - [label]) g / b.
        x = leaves[0]
        b = x.shape[0]
        e = log_probs(x, u)
        picked = torch.log_softmax(x, -1).gather(1, labels[:, None]).abs()
        forward = e.gather(1, labels[:, None]).sum() / b + g(b + 2, u) * picked.sum() / b
        p = torch.softmax(x, -1)
        truth = F.one_hot(labels, x.shape[1])
        return [forward, (p * (e + g(8, u)) + g(4, u) * truth) * grad.abs() / b]
    return bound


def weighted_cross_entropy(labels, weights):
    def bound(leaves, grad, u):
        # As above with factors f = w / W, in which W is the sum of b weights.
        x = leaves[0]
        b = x.shape[0]
        f = (weights.double()[labels] / weights.double()[labels].sum())[:, None]
        e = log_probs(x, u)
        picked = torch.log_softmax(x, -1).gather(1, labels[:, None]).abs()
        forward = (f * e.gather(1, labels[:, None])).sum() + g(2 * b + 3, u) * (f * picked).sum()
        p = torch.softmax(x, -1)
        truth = F.one_hot(labels, x.shape[1])
        return [forward, (p * (e + g(b + 10, u)) + g(b + 6, u) * truth) * f * grad.abs()]
    return bound


def statistics(x, dim, u):
    """Mean, 1/sqrt(variance), H and r: every way to evaluate (x - mean) / deviation errs by at most H times
    g(n + const) + r, where H = (|x| + mean |x|) / deviation and r is the relative error of 1/deviation.

    The mean is off by g(n) mean |x|, so each deviation c by g(n + 1) (|x| + mean |x|) = e; the variance,
    in two passes or by Welford's update, by 2 mean(|c| e) + g(n + 3) mean c^2, taken twice; r is half of
    that relative to the variance, plus 3u for sum, root and quotient."""
    n = math.prod(x.shape[d] for d in dim)
    mean = x.mean(dim, keepdim=True)
    c = x - mean
    size = x.abs() + x.abs().mean(dim, keepdim=True)
    variance = (c**2).mean(dim, keepdim=True)
    off = 2 * (2 * (c.abs() * g(n + 1, u) * size).mean(dim, keepdim=True) + g(n + 3, u) * variance)
    return mean, variance, off, size


def normalised(leaves, grad, u, dims, eps):
    """Bounds for y = x_hat w + b over the dimensions `dims`, with w and b over the others (or absent).

    Backward, with s = |g w|: dx is a combination of s, its mean and H mean(s H), each product rounded a
    few times and each factor 1/deviation (three of them at most) off by r. dw sums g x_hat."""
    x, w, b = leaves[0], leaves[1] if len(leaves) > 1 else None, leaves[2] if len(leaves) > 2 else None
    stat_dims, sum_dims, view = dims
    n = math.prod(x.shape[d] for d in stat_dims)
    n_sum = math.prod(x.shape[d] for d in sum_dims)
    _, variance, off, size = statistics(x, stat_dims, u)
    rstd = 1 / torch.sqrt(variance + eps)
    r = off / (2 * (variance + eps)) + 3 * u
    h = size * rstd
    wide = torch.ones(view, dtype=x.dtype) if w is None else w.abs().reshape(view)
    shift = 0 if b is None else b.abs().reshape(view)
    forward = wide * h * (g(n + 10, u) + r) + g(2, u) * shift
    s = grad.abs() * wide
    back = rstd * (s + s.mean(stat_dims, keepdim=True) + h * (s * h).mean(stat_dims, keepdim=True))
    result = [1.01 * forward, 1.01 * back * (g(2 * n + 14, u) + 3 * r)]
    if w is not None:
        result.append(1.01 * (grad.abs() * h * (g(n + n_sum + 10, u) + r)).sum(sum_dims))
        result.append(g(n_sum, u) * grad.abs().sum(sum_dims))
    return result


def layer_norm(eps):
    def bound(leaves, grad, u):
        return normalised(leaves, grad, u, ((1,), (0,), (1, leaves[0].shape[1])), eps)
    return bound


def columns(x):
    """What batch norm sums over, and how a per-channel tensor is laid over x."""
    dims = tuple(d for d in range(x.dim()) if d != 1)
    return dims, dims, tuple(x.shape[1] if d == 1 else 1 for d in range(x.dim()))


def batch_norm_training(eps, momentum, running):
    def bound(leaves, grad, u):
        # running = (1 - m) running + m new; the unbiased variance is n / (n - 1) times the biased
        # one.
        x = leaves[0]
        dims, _, view = columns(x)
        n = x.numel() // x.shape[1]
        result = normalised(leaves, grad, u, columns(x), eps)
        if running:
            mean, variance, off, _ = statistics(x, dims, u)
            old_mean, old_var = (t.double() for t in running)
            m = momentum
            mean_off = g(n, u) * x.abs().mean(dims)
            result.append(m * mean_off + g(4, u) * ((1 - m) * old_mean.abs() + m * mean.flatten().abs()))
            unbiased = variance.flatten() * n / (n - 1)
            result.append(m * off.flatten() * n / (n - 1) + g(5, u) * ((1 - m) * old_var + m * unbiased))
        return result
    return bound


def batch_norm_evaluation(eps, running):
    def bound(leaves, grad, u):
        # An affine map: 1/sqrt(var + eps) is off by 3u, every product and sum by one rounding.
        x, w, b = leaves
        dims, _, view = columns(x)
        mean, var = (t.double().reshape(view) for t in running)
        n = x.numel() // x.shape[1]
        h = (x.abs() + mean.abs()) / torch.sqrt(var + eps)
        wide = w.abs().reshape(view)
        return [g(9, u) * wide * h + g(2, u) * b.abs().reshape(view),
                g(7, u) * grad.abs() * wide / torch.sqrt(var + eps),
                g(n + 8, u) * (grad.abs() * h).sum(dims), g(n, u) * grad.abs().sum(dims),
                torch.zeros(x.shape[1]), torch.zeros(x.shape[1])]
    return bound


def mean_of_differences(target, power):
    def bound(leaves, grad, u):
        # Difference, power and each addition of positive terms round; the gradient's operations
        # are the same ones in the same order on both sides.
        x = leaves[0]
        value = ((x - target.double()).abs() ** power).mean()
        return [g(x.numel() + 3, u) * value, None]
    return bound
