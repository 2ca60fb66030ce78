package bash

import _ "embed"

// inventory is sandbox.Language.Inventory.
//
//go:embed inventory.sh
var inventory string
