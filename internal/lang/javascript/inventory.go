package javascript

import _ "embed"

// inventory prints the JSON that sandbox.Language.Inventory speaks of.
//
//go:embed inventory.js
var inventory string
