package python

import _ "embed"

// inventory is sandbox.Language.Inventory.
//
//go:embed inventory.py
var inventory string
