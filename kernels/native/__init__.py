"""A whole step on a CPU as one call: a C++ library behind a C interface, without torch.

library: finds and loads it. device: weights, cache and slots behind a handle. shapes: what goes in.
"""
