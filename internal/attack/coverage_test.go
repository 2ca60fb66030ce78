package attack

// attacksElsewhere are entries of the corpus that are requests to the HTTP server, not programs, with the tests that
// cover them: "folder: test". A test checks that these exist.
var attacksElsewhere = map[string][]string{
	"H02": {"internal/httpapi: TestRefused", "internal/engine: TestRefused"},
	"H03": {"internal/httpapi: TestKeys"},
	"H04": {"internal/httpapi: TestSmuggling", "internal/httpapi: TestHeldConnections",
		"internal/httpapi: TestKeylessConnectionsGiveWay"},
	"H05": {"internal/httpapi: TestRefused"},
	"H06": {"internal/httpapi: TestRefused"},
	"H07": {"internal/httpapi: TestBrowsers", "internal/httpapi: TestCheckListen"},
	"H08": {"internal/httpapi: TestRefused"}, // there is no call back and no idempotency key: both are unknown fields
	"H09": {"internal/httpapi: TestSlowReader"},
	"H10": {"internal/httpapi: TestFlood", "internal/engine: TestConservation"},
	"X06": {"internal/httpapi: TestLiving"}, // there are no signed addresses; an id is 128 random bits

	"E04": {"internal/egress: TestHTTPNames", "internal/egress: TestCanaries"},
	"E08": {"internal/egress: TestTLSNames", "internal/egress: TestCanaries"},
	"E09": {"internal/egress: TestCanaries"},
	"E13": {"internal/egress: TestFlood", "internal/egress: TestCounts", "internal/egress: TestBounds"},
	"E15": {"internal/egress: TestCanaries", "internal/egress/rules: TestNeverPublic",
		"internal/egress/rules: TestBadRules"},
	// what was sent where is on record; paths are not decided about
	"E16": {"internal/egress: TestFullDenies", "internal/egress: TestSecret"},

	// E17 to E20 and S10 also run from their files. Broadcast addresses, and prefixes that a route makes the host's:
	"E17": {"internal/egress: TestCanaries", "internal/egress: TestRoutes", "internal/egress: TestRouteChanges"},
	// a client of the API that names addresses which the operator does not list
	"E18": {"internal/egress: TestCanaries", "cmd/fumehood: TestNetworkCeiling", "internal/egress/rules: TestCeiling",
		"internal/egress/rules: TestAboveCeiling"},
	// connections that take the server's descriptors
	"E19": {"internal/egress: TestConnectionsOfOwner", "internal/egress: TestMaxConnections",
		"cmd/fumehood: TestDescriptors", "cmd/fumehood: TestDescriptorsOf"},
	// headers, unread answers, stuck connections and single bytes that take its memory
	"E20": {"internal/egress: TestAnswerHeads", "internal/egress/intercept: TestAnswerHeadTime",
		"internal/egress: TestUnreadAnswers", "internal/egress: TestStuckConnections", "internal/egress: TestCrumbs"},
	// HTTP in disguise, at ports where other protocols pass
	"E21": {"internal/egress: TestDisguisedHTTP"},
	// QUIC past the inspection of requests
	"E22": {"internal/egress/rules: TestQUIC"},
	// packets and questions that take its CPU time, and that of the host's resolver
	"E23": {"internal/egress: TestGateCost", "internal/egress: TestPace", "cmd/fumehood: TestGateCPU",
		"internal/egress: TestQuestionRate"},
	// input on which the gate panics
	"E24": {"internal/egress: TestPanic"},

	// A secret whose value the code wants to have. How much of an answer comes, and when, is an oracle.
	"S07": {"internal/egress/intercept: TestStreamIsNoOracle", "internal/egress/intercept: TestStreamHides"},
	// the host stores the value, and returns it to a later request
	"S08": {"internal/egress: TestSecret", "internal/egress/intercept: TestInsertSecrets",
		"internal/egress: TestSecretInAnswers"},
	// another virtual host or port, by the target or the Host of a request
	"S09": {"internal/egress: TestSecretTargets", "internal/egress: TestSecretCanaries"},
	// headers of every status, interim answers, trailers, names; parts and compressed answers
	"S10": {"internal/egress: TestSecretInAnswers", "internal/egress/intercept: TestHeaders"},
	// the log of a library
	"S11": {"internal/egress: TestSecretInLogs"},
	// a change of the policy sends it to another host or header
	"S12": {"internal/engine: TestCheckWithoutValue", "cmd/fumehood: TestSecretOfSandbox"},

	// These begin with an installation, which is no program of a run.
	"I01": {"cmd/fumehood: TestPackagesBuild"},
	"I02": {"cmd/fumehood: TestPackagesScripts"},
	"I04": {"cmd/fumehood: TestPackagesBuild", "internal/packages: TestSupplyOfOthers",
		"internal/trees: TestPublishTwice"},
	"I05": {"internal/lang/python: TestOnlyTheIndex", "internal/lang/python: TestOneLine",
		"internal/lang/javascript: TestOnlyTheIndex", "internal/packages: TestRequestKey"},
	// a near name, a lock, one index
	"I06": {"cmd/fumehood: TestPackagesRefused", "cmd/fumehood: TestPackagesOfRun",
		"internal/packages: TestPasswordOfIndex"},
	"I07": {"cmd/fumehood: TestPackagesTooMuch", "cmd/fumehood: TestPackagesKilled",
		"internal/packages: TestAddHostile",
		"internal/packages: TestFlights"},

	// These also run from their files; the tests here cover the server's part, or a
	// sandbox with a network.
	"A01": {"internal/httpapi: TestRefused", "internal/httpapi: TestOddPathsStayInside",
		"internal/plan: TestCheckPath"},
	"O01": {"internal/httpapi: TestOutputOverTheLimit", "internal/engine: TestRunawayIsEnded"},
	"O02": {"internal/httpapi: TestOutputIsLossless", "internal/httpapi: TestStream"},
	"O07": {"internal/httpapi: TestInjection"},
	"E05": {"internal/egress: TestCanaries"},
	"E10": {"internal/egress: TestCanaries"},
	"E11": {"internal/egress: TestNeighbours"},
	"S04": {"internal/egress: TestSecretCanaries"},
}

// Why entries are not run yet.
const needsBackend = "there is no such backend yet; its fields are unknown (internal/httpapi: TestRefused)"

// attacksNotYet are entries for unbuilt parts, or that nothing can show, each with the reason.
var attacksNotYet = map[string]string{
	"X05": "a shared kernel shows load, counters and page cache timing to all; SECURITY.md promises nothing about that",
	"G09": needsBackend, "G11": needsBackend,
}
