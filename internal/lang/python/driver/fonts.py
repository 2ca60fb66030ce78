# Lets matplotlib draw letters that its fonts lack with other fonts of the root.
SAMPLES = "中あ한กअঅਅઅଅஅఅಅഅසខမབአԱაאا😀"  # a letter of each script, and a pictogram
MAX_FONTS = 400  # files that are searched


def extend_fonts(module):
    """Adds fonts that have the letters of further scripts to those of each text, as fallbacks."""
    find = getattr(module.FontManager, "_find_fonts_by_props", None)
    if find is None:  # before matplotlib 3.6
        return

    def find_with_fallbacks(self, *args, **options):
        found = find(self, *args, **options)
        if "fontext" in options and options["fontext"] != "ttf":
            return found
        return found + [path for path in fallbacks(self) if path not in found]

    module.FontManager._find_fonts_by_props = find_with_fallbacks
    module._log.addFilter(first_time)


def first_time(record, seen=set()):
    """Passes each message once: a font that is missing is reported for each text."""
    text = record.getMessage()
    if text in seen or len(seen) > 1000:
        return False
    seen.add(text)
    return True


def fallbacks(manager):
    """Returns the paths of fonts for the scripts that the default font lacks, few for many."""
    global chosen
    if chosen is None:
        from matplotlib import get_data_path
        from matplotlib.ft2font import FT2Font
        own = FT2Font(get_data_path() + "/fonts/ttf/DejaVuSans.ttf")
        missing = [letter for letter in SAMPLES if not own.get_char_index(ord(letter))]
        others = [font for font in manager.ttflist if not font.fname.startswith(get_data_path())]
        others.sort(key=lambda font: ("Sans" not in font.name and "Hei" not in font.name, font.style != "normal",
                                      abs(400 - font.weight) if isinstance(font.weight, int) else 0, font.name))
        found, seen = [], set()
        for font in others[:MAX_FONTS]:
            if not missing:
                break
            if font.fname in seen:
                continue
            seen.add(font.fname)
            try:
                face = FT2Font(font.fname)
                has = [letter for letter in missing if face.scalable and face.get_char_index(ord(letter))]
            except Exception:  # damaged, or of a format that matplotlib does not read
                continue
            if has:
                found.append(font.fname)
                missing = [letter for letter in missing if letter not in has]
        chosen = found
    return chosen


chosen = None


def extend_text(module):
    """Lets matplotlib warn once in a run about letters that no font has, instead of once for each letter."""
    warn = module.warn_on_missing_glyph

    def warn_once(*args, **options):
        global warned
        if warned != runs:
            warned = runs
            warn(*args, **options)

    module.warn_on_missing_glyph = warn_once


warned = None  # the last run with a warning
