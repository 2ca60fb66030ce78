package api

// TemplateRequest is the body of POST /v1/templates: a Dockerfile or steps, and the files that they copy.
type TemplateRequest struct {
	Name       string            `json:"name" required:"true" example:"bio"`                // Of the image.
	Dockerfile *string           `json:"dockerfile,omitempty" pattern:"." one:"recipe"`     // Its text.
	Steps      []TemplateStep    `json:"steps,omitempty" least:"1" max:"1000" one:"recipe"` // The first one is from.
	Start      string            `json:"start,omitempty" example:"node server.js"`          // Sandboxes start with it.
	Ready      string            `json:"ready,omitempty" example:"8080"`                    // A port, or a check.
	Files      []File            `json:"files,omitempty" max:"10000"`                       // What COPY and copy find.
	Args       map[string]string `json:"args,omitempty"`                                    // Values of ARGs.
	// Where commands run: by default gvisor, or native where gvisor does not work.
	Backend string  `json:"backend,omitempty" example:"native"`
	Limits  Limits  `json:"limits,omitzero"`  // Of each step.
	Network Network `json:"network,omitzero"` // Of each step.
	// As for runs.
	AllowUnenforced []string `json:"allow_unenforced,omitempty" max:"64"`
	NoCache         bool     `json:"no_cache,omitempty"` // Repeat every step.
}

// TemplateStep is one step of a template; exactly one member is set.
type TemplateStep struct {
	From    string   `json:"from,omitempty" example:"python:3.12-slim"` // The base image.
	Run     string   `json:"run,omitempty"`                             // A line for /bin/sh.
	Pip     []string `json:"pip,omitempty" max:"1000"`                  // Python packages.
	Copy    string   `json:"copy,omitempty" example:"refs:/opt/refs"`   // A path of files, and one of the image.
	Env     string   `json:"env,omitempty" example:"NAME=value"`        // A variable.
	Workdir string   `json:"workdir,omitempty" example:"/app"`          // The working directory; it is made.
	User    string   `json:"user,omitempty" example:"nobody"`           // Of later steps and of the image.
}

// Template is a built template.
type Template struct {
	Name        string `json:"name"`         // In full, with registry and tag. Runs may name it as the request did.
	Digest      string `json:"digest"`       // Of its files and configuration.
	Bytes       int64  `json:"bytes"`        // Of all its files.
	Steps       int    `json:"steps"`        // Steps of the build.
	CachedSteps int    `json:"cached_steps"` // Of them, those that an earlier build had made.
}

// TemplateDone is the data of the done event of a build.
type TemplateDone struct {
	TimeMS float64 `json:"time_ms"`
	Template
}
