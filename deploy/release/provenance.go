package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
)

const (
	repository     = "https://github.com/fumehood-dev/fumehood"
	provenanceName = "provenance.json"
)

type digest map[string]string

type resource struct {
	Name   string `json:"name,omitempty"`
	URI    string `json:"uri,omitempty"`
	Digest digest `json:"digest"`
}

// statement is an in-toto statement, version 1, with the predicate SLSA provenance, version 1.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition definition `json:"buildDefinition"`
	RunDetails      details    `json:"runDetails"`
}

type definition struct {
	BuildType            string         `json:"buildType"`
	ExternalParameters   map[string]any `json:"externalParameters"`
	InternalParameters   map[string]any `json:"internalParameters"`
	ResolvedDependencies []resource     `json:"resolvedDependencies"`
}

type details struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// provenance writes what the files were made of, and how. It is as trustworthy as the signature of SHA256SUMS.
func (r *release) provenance(targets []string) error {
	sums, names, err := r.digests()
	if err != nil {
		return err
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range names {
		s.Subject = append(s.Subject, resource{Name: name, Digest: digest{"sha256": sums[name]}})
	}
	s.Predicate.BuildDefinition = definition{
		BuildType:            repository + "/blob/main/deploy/release",
		ExternalParameters:   map[string]any{"version": r.version, "targets": targets},
		InternalParameters:   map[string]any{"go": runtime.Version(), "epoch": r.time.Unix()},
		ResolvedDependencies: []resource{{URI: "git+" + repository, Digest: digest{"gitCommit": r.commit}}},
	}
	s.Predicate.RunDetails.Builder.ID = repository + "/blob/main/Makefile"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, provenanceName), append(text, '\n'), 0o644)
}
