package sandbox

// Symptom is a likely cause of a failure, as the output of a program tells it.
type Symptom struct {
	Kind  SymptomKind
	Name  string    // of the command, module or file; hostile
	Limit LimitName // of SymptomLimit
	Hosts []string  // of SymptomNoData
}

// SymptomKind is a kind of symptom.
type SymptomKind uint8

// The kinds of symptoms. What each means for a run is decided by package diagnose.
const (
	SymptomLimit        SymptomKind = iota + 1 // Limit was reached
	SymptomNoCommand                           // there is no program Name
	SymptomNotProgram                          // the file Name cannot be executed
	SymptomLineEnds                            // the script Name, or one, has Windows line ends
	SymptomUserFolder                          // uv installed into a folder of the system
	SymptomNested                              // a browser could not make its own sandbox
	SymptomNoInstall                           // the installer Name failed
	SymptomNoNetwork                           // an address could not be reached
	SymptomNoModule                            // the module Name is missing
	SymptomNoDependency                        // the package Name, which an installed one needs for some calls
	SymptomNoInput                             // standard input is empty
	SymptomMissingFile                         // the file Name is missing
	SymptomReadOnly                            // the place Name cannot be written to
	SymptomTerminal                            // a terminal could not be opened
	SymptomNotebook                            // a line of the code is for notebooks
	SymptomESModule                            // an ECMAScript module calls require
	SymptomNoFont                              // no font has the character Name, a decimal code point
	SymptomNotBuilt                            // the package Name lacks its native part
	SymptomNotCompiled                         // the launcher of the language Name compiled nothing, so nothing ran
	SymptomNoData                              // the library Name lacks what it downloads from Hosts
)
