package backendtest

var wallCases []testCase
