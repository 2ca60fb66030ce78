package python

import _ "embed"

// inventory prints the JSON that sandbox.Language.Inventory speaks of.
//
//go:embed inventory.py
var inventory string
