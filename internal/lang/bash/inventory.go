package bash

import _ "embed"

// inventory prints the JSON that sandbox.Language.Inventory speaks of.
//
//go:embed inventory.sh
var inventory string
