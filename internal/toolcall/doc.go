// Package toolcall checks the tools that code in a sandbox can call, their arguments and their answers.
//
// The caller chooses tools and schemas. Arguments come out of the sandbox and are hostile: they are bounded in bytes,
// depth and number of values before anything decodes them, and encoded anew, so that the caller gets JSON without
// repeated names, invalid UTF-8 or lone surrogates (RFC 8259, sections 4 and 8). Patterns of schemas are matched in
// linear time (package regexp). References to other documents are refused.
package toolcall
