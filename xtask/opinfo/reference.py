"""PyTorch's values of a case: results, gradients and second gradients, also in double precision as the
standard of comparison.
"""

import torch

# Results with more elements are not differentiated, because they test nothing further.
MAX_GRADIENT_ELEMENTS = 1 << 14


def flat(results):
    """Results as a list of tensors."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, (list, tuple)):
        return [one for result in results for one in flat(result)]
    return [torch.tensor(results)] if isinstance(results, (bool, int, float)) else []


def noise(tensor, ones):
    """A gradient for a tensor."""
    return torch.ones_like(tensor) if ones else torch.randn_like(tensor)


class Reference:
    """PyTorch's values of a case, with gradients up to `order`: 0, 1 or 2."""

    def __init__(self, case, order):
        self.leaves = [t for t in case.tensors() if t.requires_grad] if order else []
        self.outer, self.inner = [], []
        self.values = [[], [], []]
        # Some operators change their arguments.
        copies = {id(t): t.detach().clone() for t in case.tensors() if not t.requires_grad}
        kept = case.with_tensors(lambda t: copies.get(id(t), t))
        results = flat(kept.call())
        self.values[0] = [r.detach() for r in results]
        if not self.leaves or any(r.numel() > MAX_GRADIENT_ELEMENTS for r in results):
            self.leaves = []
            return
        ones = ":special:" in case.name
        torch.manual_seed(11)
        self.outer = [noise(r.detach(), ones) if r.requires_grad else None for r in results]
        if all(g is None for g in self.outer):
            self.outer, self.leaves = [], []
            return
        first = self.gradients(results, self.outer, order > 1)
        self.values[1] = [g.detach() for g in first]
        if order > 1:
            self.inner = [noise(g.detach(), ones) for g in first]
            second = self.gradients(first, self.inner, False)
            self.values[2] = [g.detach() for g in second]

    def gradients(self, of, given, create):
        """Gradients of the leaves, with zeros for a leaf that no result depends on."""
        pairs = [(x, g) for x, g in zip(of, given) if g is not None and x.requires_grad]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in self.leaves]
        return torch.autograd.grad(
            [x for x, _ in pairs],
            self.leaves,
            [g for _, g in pairs],
            create_graph=create,
            materialize_grads=True,
        )


def wide(tensor):
    """A tensor of floats in double precision, or another tensor unchanged."""
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)


def truth(case, reference):
    """The same values in double precision, from the same given gradients, or None if PyTorch does not
    compute them.
    """
    try:
        other = case.with_tensors(wide)
        results = flat(other.call())
        exact = object.__new__(Reference)
        exact.leaves = [t for t in other.tensors() if t.requires_grad] if reference.leaves else []
        values = [results, [], []]
        if reference.outer:
            outer = [None if g is None else g.double() for g in reference.outer]
            values[1] = exact.gradients(results, outer, bool(reference.inner))
        if reference.inner:
            values[2] = exact.gradients(values[1], [g.double() for g in reference.inner], False)
        return [[v.detach() for v in some] for some in values]
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
