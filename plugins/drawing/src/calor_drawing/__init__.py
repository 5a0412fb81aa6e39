"""Pictures of calor's graphs as SVG: the functions behind ``graph.svg()`` and ``graph.draw(path)``.

>>> import calor
>>> from calor.drawing import graph_svg
>>> graph_svg(calor.trace(calor.exp, calor.ones(2)))[:4]
'<svg'
"""

from calor_drawing.notes import Notes
from calor_drawing.picture import draw, graph_svg

__all__ = ["Notes", "draw", "graph_svg"]
