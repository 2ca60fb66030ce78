# Reads the data of a figure of matplotlib, in the form of E2B's charts: line, scatter, bar, pie, box_and_whisker,
# superchart for several axes, and unknown for all others.
import math
import re
MAX_POINTS = 20000  # of one figure
UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def figure_chart(figure):
    """Returns the chart of a figure, None if it is blank, or the number of its points if they are too many."""
    from matplotlib.text import Text
    axes = figure.get_axes()
    if not any(ax.has_data() for ax in axes):
        return None
    points = sum(len(line.get_xdata(orig=False)) for ax in axes for line in ax.lines)
    points += sum(len(c.get_offsets()) for ax in axes for c in ax.collections) + sum(len(ax.patches) for ax in axes)
    if points > MAX_POINTS:
        return points
    charts = [axes_chart(ax, [child for child in ax.get_children() if child.axes is ax and drawn(ax, child)
                              and not isinstance(child, Text)]) for ax in axes]
    if len(charts) == 1:
        return charts[0]
    title = getattr(figure, "_suptitle", None)
    return {"type": "superchart", "title": title.get_text() or None if title else None, "elements": charts}


def drawn(ax, child):
    """Reports whether a child of axes was drawn by the code: it is not a spine, an axis, the background or a legend."""
    return any(child in artists for artists in (ax.lines, ax.patches, ax.collections, ax.images, ax.artists, ax.tables))


def axes_chart(ax, artists):
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge

    def only(*kinds, of=artists):
        return all(isinstance(artist, kinds) for artist in of)

    plain = [artist for artist in artists if not (isinstance(artist, Line2D) and is_guide(artist))]
    if only(Line2D):
        return planar(ax, "line", [(named(line), zip(line.get_xdata(), line.get_ydata()))
                                   for line in ax.lines if line.get_transform() is ax.transData])
    if only(PathPatch, Line2D):
        chart = boxes(ax, [patch for patch in ax.patches if isinstance(patch, PathPatch)])
        if chart:
            return chart
    if only(PathCollection, of=plain):
        return planar(ax, "scatter", [(named(group), group.get_offsets()) for group in ax.collections])
    if only(Wedge, of=plain):
        return {**base(ax, "pie"), "elements": [
            {"label": wedge.get_label(), "angle": round(abs(float(wedge.theta2) - float(wedge.theta1)), 4),
             "radius": float(wedge.r)} for wedge in ax.patches]}
    if only(Rectangle, of=plain):
        return bars(ax)
    return {**base(ax, "unknown"), "elements": []}


def is_guide(line):
    """Reports whether a line is horizontal or vertical, as those that axhline and axvline draw."""
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


def named(artist):
    """Returns the label of an artist. Those that matplotlib gave begin with an underscore."""
    label = str(artist.get_label())
    for prefix, name in ("_child", "Line"), ("_container", "Group"):
        if label.startswith(prefix):
            return "%s %s" % (name, label[len(prefix):])
    return label


def base(ax, kind):
    return {"type": kind, "title": ax.get_title() or None}


def labels(ax, swapped=False):
    """Returns the labels of the axes and the units that end them, as in "Time (s)". Horizontal charts are swapped."""
    fields = {}
    for name, label in (("x", ax.get_xlabel()), ("y", ax.get_ylabel())):
        name = name if not swapped else "y" if name == "x" else "x"
        unit = UNIT.search(label)
        fields[name + "_label"] = label or None
        fields[name + "_unit"] = (unit.group(1) or unit.group(2)) if unit else None
    return fields


def planar(ax, kind, groups):
    chart = {**base(ax, kind), **labels(ax)}
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        texts = [label.get_text() for label in axis.get_ticklabels()]
        places = [float(place) for place in axis.get_ticklocs()]
        dates = sys.modules.get("matplotlib.dates")
        if dates and isinstance(converter, (dates.DateConverter, dates._SwitchableDateConverter)):
            ticks, scale = [dates.num2date(place).isoformat() for place in places], "datetime"
        else:
            ticks, scale = places, axis.get_scale()
            if scale == "linear" and all(place == i and text != str(i) for i, (place, text) in
                                         enumerate(zip(places, texts))):
                scale = "categorical"
        chart.update({name + "_ticks": ticks, name + "_tick_labels": texts, name + "_scale": scale})
    chart["elements"] = [{"label": label, "points": [[coordinate(x), coordinate(y)] for x, y in points]}
                         for label, points in groups]
    return chart


def coordinate(value):
    """Returns a coordinate as JSON has it: a number, a date in ISO 8601, or a name. A gap is None."""
    if isinstance(value, str):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    number = float(value)
    return number if math.isfinite(number) else None


def bars(ax):
    chart, swapped, elements = base(ax, "bar"), False, []
    for container in ax.containers:
        sideways = getattr(container, "orientation", None) == "horizontal"
        swapped = swapped or sideways
        axis = ax.yaxis if sideways else ax.xaxis
        for label, bar in zip(axis.get_ticklabels(), container):
            value = bar.get_width() if sideways else bar.get_height()
            elements.append({"label": label.get_text(), "group": named(container), "value": coordinate(value)})
    return {**chart, **labels(ax, swapped), "elements": elements}


def boxes(ax, patches):
    """Returns the chart of boxes that stand or lie, or None if the patches are no boxes of a box plot."""
    for along in 1, 0:  # the axis of the values
        across = 1 - along
        elements = []
        for label, patch in zip((ax.yaxis if across else ax.xaxis).get_ticklabels(), patches):
            corners = patch.get_path().vertices
            low, high = float(corners[:, along].min()), float(corners[:, along].max())
            box = {"label": label.get_text(), "min": low, "first_quartile": low, "median": None,
                   "third_quartile": high, "max": high, "outliers": []}
            for line in ax.lines:
                data = [[coordinate(value) for value in values] for values in line.get_data()]
                places, values = data[across], data[along]
                if not places or min(places) < corners[:, across].min() or max(places) > corners[:, across].max():
                    continue
                if str(line.get_linestyle()) == "None":
                    box["outliers"] += values
                elif len(values) == 2 and places[0] == places[1]:  # from the box to a whisker
                    box["min"], box["max"] = min(box["min"], *values), max(box["max"], *values)
                elif len(values) == 2 and values[0] == values[1] and low <= values[0] <= high:
                    box["median"] = values[0]
            elements.append(box)
        if elements and all(box["median"] is not None for box in elements):
            return {**base(ax, "box_and_whisker"), **labels(ax, swapped=along == 0), "elements": elements}
