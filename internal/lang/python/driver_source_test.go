//go:build unix

package python_test

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

const definitions = `%matplotlib inline
import dataclasses, enum, functools, math
from typing import NamedTuple

SCALE = 3

class Empty(Exception):
    "Has no method."

class Outer:
    class Inner: pass
    def method(self):
        return 1
    @property
    def prop(self): return 2
    @staticmethod
    def static(): return 3
    @classmethod
    def made(cls): return 4
    async def waits(self): pass

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0

class Colour(enum.Enum):
    RED = 1

class Pair(NamedTuple):
    a: int

def logged(f):
    @functools.wraps(f)
    def inner(*args): return f(*args)
    return inner

@logged
def double(x):
    return SCALE * x + math.floor(0.5)

def make():
    class Local:
        z = 1
    return Local
`

// TestDriverSource finds the source of everything that a cell defines, also one with notebook syntax.
func TestDriverSource(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run(definitions)
	d.Run("class Empty(Exception): 'an older one'")
	d.Run("class Empty(Exception):\n    \"Has no method.\"\n")
	for what, want := range map[string]string{
		"Empty":           "class Empty(Exception):\n    \"Has no method.\"\n",
		"Outer.Inner":     "    class Inner: pass\n",
		"Outer.method":    "    def method(self):\n        return 1\n",
		"Outer.prop.fget": "    @property\n    def prop(self): return 2\n",
		"Outer.static":    "    @staticmethod\n    def static(): return 3\n",
		"Outer.made":      "    @classmethod\n    def made(cls): return 4\n",
		"Outer.waits":     "    async def waits(self): pass\n",
		"Point":           "@dataclasses.dataclass(order=True)\nclass Point:\n    x: int\n    y: int = 0\n",
		"Colour":          "class Colour(enum.Enum):\n    RED = 1\n",
		"Pair":            "class Pair(NamedTuple):\n    a: int\n",
		"double":          "@logged\ndef double(x):\n    return SCALE * x + math.floor(0.5)\n",
		"make()":          "    class Local:\n        z = 1\n",
	} {
		if o := d.Run("import inspect\nprint(inspect.getsource(" + what + "), end='')"); o.Stdout != want {
			t.Errorf("%s: %q, want %q\n%s", what, o.Stdout, want, o.Stderr)
		}
	}
	if o := d.Run("print(inspect.getfile(Outer), inspect.getsourcefile(Point), inspect.getsourcelines(Colour)[1])\n" +
		"exec('class Hidden: pass')\ninspect.getsource(Hidden)"); o.Stdout != "<cell 1> <cell 1> 27\n" ||
		o.Error == nil || o.Error.Name != "OSError" && o.Error.Name != "TypeError" {
		t.Errorf("%+v", o)
	}
}

// TestDriverProcesses passes definitions of a context to other processes, however these start.
func TestDriverProcesses(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run(definitions)
	for _, method := range []string{"fork", "spawn", "forkserver"} {
		o := d.Run("import multiprocessing, pickle\nfrom concurrent.futures import ProcessPoolExecutor\n" +
			"context = multiprocessing.get_context('" + method + "')\nwith context.Pool(1) as pool:\n" +
			"    print(pool.map(double, [1, 2]))\nwith ProcessPoolExecutor(1, mp_context=context) as pool:\n" +
			"    print(pool.submit(max, Point(1, 2), Point(2, 1)).result(), pool.submit(double, 5).result())\n" +
			"pickle.loads(pickle.dumps([Point(1), Outer(), Colour.RED, Pair(1), double, Outer.Inner]))[0] == Point(1)")
		if o.Stdout != "[3, 6]\nPoint(x=2, y=1) 15\n" || forms(o) != "main text/plain True\n" {
			t.Errorf("%s: %+v", method, o)
		}
	}
}
