package javascript

import _ "embed"

// inventory is sandbox.Language.Inventory.
//
//go:embed inventory.js
var inventory string
