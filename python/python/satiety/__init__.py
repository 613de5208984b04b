"""Whether the next unit is still worth it: a step of an agent, a search, a chunk of context, a benchmark run.

Everything computes on this machine, synchronously and without I/O; the interpreter lock is released meanwhile.
"""

from ._command import find_command
from ._errors import SatietyError
from ._progress import Evidence, OpenEnd, Progress, Verdict, Waste
from ._satiety import __version__

__all__ = ["Evidence", "OpenEnd", "Progress", "SatietyError", "Verdict", "Waste", "__version__", "find_command"]
