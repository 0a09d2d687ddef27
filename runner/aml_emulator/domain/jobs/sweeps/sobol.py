"""Points of a Sobol sequence. Pure.

The direction numbers are the first of the set new-joe-kuo-6.21201 (https://web.maths.unsw.edu.au/~fkuo/sobol/), by
S. Joe and F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, SIAM J. Sci. Comput. 30,
2635-2654 (2008). Points are in the order of Gray codes, as in scipy's ``qmc.Sobol``.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Final

# Licence pertaining to the sets of direction numbers:
#
# Copyright (c) 2008, Frances Y. Kuo and Stephen Joe
# All rights reserved.
#
# Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
# following conditions are met:
#
#     * Redistributions of source code must retain the above copyright notice, this list of conditions and the
#       following disclaimer.
#
#     * Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the
#       following disclaimer in the documentation and/or other materials provided with the distribution.
#
#     * Neither the names of the copyright holders nor the names of the University of New South Wales and the
#       University of Waikato and its contributors may be used to endorse or promote products derived from this
#       software without specific prior written permission.
#
# THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS ``AS IS'' AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT
# NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO
# EVENT SHALL THE COPYRIGHT HOLDERS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
# DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR
# BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT
# (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE
# POSSIBILITY OF SUCH DAMAGE.
_DIRECTIONS: Final[tuple[tuple[int, tuple[int, ...]], ...]] = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
    (4, (1, 3, 7, 13, 13, 15, 69)),
)
"""The coefficients of a polynomial and the first numbers, for each dimension from the second on."""

DIMENSIONS: Final = len(_DIRECTIONS) + 1
"""So many dimensions a point has at most."""

_BITS: Final = 32


def sobol_point(number: int, dimensions: int, *, seed: str) -> list[float]:
    """Return a point; each coordinate is between 0 and 1, and neither of them.

    Args:
        number: the point's, from 0.
        dimensions: how many coordinates there are, at most `DIMENSIONS`.
        seed: moves the sequence as a whole (a digital shift); its points stay as evenly spread.
    """
    code = number ^ (number >> 1)
    shift = random.Random(seed)  # noqa: S311 - not for secrets: the same seed is to give the same points
    found = []
    for dimension in range(dimensions):
        whole = shift.getrandbits(_BITS)
        for bit, direction in enumerate(_directions(dimension)):
            if code >> bit & 1:
                whole ^= direction
        found.append((whole + 0.5) / 2**_BITS)
    return found


@cache
def _directions(dimension: int) -> tuple[int, ...]:
    """Return the direction numbers of a dimension, from 0, as fractions of 2^32."""
    if dimension == 0:
        return tuple(1 << (_BITS - 1 - bit) for bit in range(_BITS))
    coefficients, first = _DIRECTIONS[dimension - 1]
    degree = len(first)
    found = [number << (_BITS - 1 - bit) for bit, number in enumerate(first)]
    for bit in range(degree, _BITS):
        number = found[bit - degree] ^ (found[bit - degree] >> degree)
        for back in range(1, degree):
            if coefficients >> (degree - 1 - back) & 1:
                number ^= found[bit - back]
        found.append(number)
    return tuple(found)
