// Package rules compiles a network policy and decides by it. It does no I/O.
//
//   - rule.go parses one rule, policy.go and secret.go compile a policy
//   - name.go and address.go define the canonical forms of names and addresses, and the classes of addresses
//   - decide.go decides about names to resolve and destinations
//   - namecheck.go decides about names that connections state
package rules
