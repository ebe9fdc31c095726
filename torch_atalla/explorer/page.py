# SPDX-License-Identifier: BSD-3-Clause
"""The page of a study (study.Study): charts by plotly, in one HTML file that needs no network."""

from __future__ import annotations

import html
from typing import Any

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}"""


def page(study: Any, whole: bool = True) -> str:
    """The text of the page; not `whole`: a part that a notebook shows."""
    charts = [_front(study), _coordinates(study), _effects(study)]
    first: bool | str = True if whole else "require"
    parts = [c.to_html(full_html=False, include_plotlyjs=first if n == 0 else False) for n, c in enumerate(charts)]
    body = "\n".join([f"<h1>Variants of {html.escape(', '.join(study.networks))}</h1>", _table(study), *parts])
    if not whole:
        return body
    return f'<!doctype html><meta charset="utf-8"><title>Variants</title><style>{STYLE}</style>\n{body}\n'


def number(value: float) -> str:
    """Four digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _label(point: Any) -> str:
    return "<br>".join(f"{key} = {value}" for key, value in point.values.items())


def _table(study: Any) -> str:
    """Of the best variants."""
    names = [*study.space, *study.objective]
    rows = [[*point.values.values(), *(number(point.totals[o]) for o in study.objective)] for point in study.front()]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(x))}</td>" for x in row) + "</tr>" for row in rows[:20])
    refused = sum(bool(point.refused) for point in study.points)
    text = f"{len(study.points)} variants, {len(study.feasible)} within the constraints, {refused} refused. "
    text += "No other variant beats these in every objective:"
    return f"<p>{text}</p><table><tr>{head}</tr>{body}</table>"


def _front(study: Any) -> Any:
    """The first objective against the second, or against the first parameter if there is one objective."""
    import plotly.graph_objects as go

    second = study.objective[1] if len(study.objective) > 1 else next(iter(study.space))
    front = study.front()
    axes = {}
    for axis, name in (("xaxis", study.objective[0]), ("yaxis", second)):
        values = [point.totals.get(name, 0.0) for point in study.feasible]
        wide = min(values, default=0.0) > 0 and max(values) > 10 * min(values)
        axes[axis] = {"title": name, "type": "log" if wide else None}
    figure = go.Figure(layout={"title": "Pareto front", **axes})
    for name, points, symbol in (
        ("variants", [p for p in study.feasible if p not in front], "circle-open"),
        ("front", front, "diamond"),
        ("beyond a constraint", [p for p in study.points if p.beyond], "x"),
    ):
        x = [point.totals[study.objective[0]] for point in points]
        y = [point.totals.get(second, point.values.get(second)) for point in points]
        labels = list(map(_label, points))
        figure.add_scatter(x=x, y=y, text=labels, mode="markers", name=name, marker={"symbol": symbol, "size": 9})
    return figure


def _coordinates(study: Any) -> Any:
    """One line a variant, through its parameters and objectives, coloured by the first objective."""
    import plotly.graph_objects as go

    points = study.feasible
    dimensions = []
    for key, values in study.space.items():
        numbers = {value: n for n, value in enumerate(values)}
        ticks = {"tickvals": list(range(len(values))), "ticktext": list(map(str, values))}
        dimensions.append({"label": key, "values": [numbers[point.values[key]] for point in points], **ticks})
    measured = {name: [point.totals[name] for point in points] for name in study.objective}
    dimensions += [{"label": name, "values": numbers} for name, numbers in measured.items()]
    line = {"color": measured[study.objective[0]], "colorscale": "Viridis", "showscale": True}
    return go.Figure(go.Parcoords(line=line, dimensions=dimensions), layout={"title": "Parallel coordinates"})


def _effects(study: Any) -> Any:
    """For each parameter, the mean of an objective over all variants with a value, relative to the mean of all."""
    import plotly.graph_objects as go

    figure = go.Figure(layout={"title": "Effect of each parameter", "yaxis_title": "mean, relative to all variants"})
    for name in study.objective:
        everything = [point.totals[name] for point in study.feasible]
        mean = sum(everything) / max(len(everything), 1) or 1.0
        groups, labels, heights = [], [], []
        for key, values in study.space.items():
            for value in values:
                chosen = [point.totals[name] for point in study.feasible if point.values[key] == value]
                if chosen:
                    groups.append(key)
                    labels.append(str(value))
                    heights.append(sum(chosen) / len(chosen) / mean)
        figure.add_bar(x=[groups, labels], y=heights, name=name)
    return figure
