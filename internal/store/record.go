package store

import (
	"encoding/json"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is signed, as SQLite's integers are.
func sum(b []byte) int64 { return int64(crc32.Checksum(b, castagnoli)) }

// encode makes sure that decode returns the same record. JSON would replace what is not UTF-8 in an environment or a
// path, and a sandbox would be reattached with another spec than it has.
func encode(r sandbox.Record) ([]byte, error) {
	if _, err := sandbox.ParseID(string(r.ID)); err != nil {
		return nil, err
	}
	r.Spec.Lifetime.EndsAt = plain(r.Spec.Lifetime.EndsAt)
	r.Created, r.Ended, r.Contexts = plain(r.Created), plain(r.Ended), slices.Clone(r.Contexts)
	for i := range r.Contexts {
		r.Contexts[i].Created = plain(r.Contexts[i].Created)
	}
	r.Spec.Network.Former = nil
	r.Spec.Network.Secrets = slices.Clone(r.Spec.Network.Secrets)
	for i := range r.Spec.Network.Secrets {
		r.Spec.Network.Secrets[i].Value = "" // it is only kept in memory
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "store: save", Err: err}
	}
	if len(b) > MaxRecord {
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "store: save",
			Msg: "the record of a sandbox has more than " + sandbox.FormatBytes(MaxRecord)}
	}
	again, err := decode(r.ID, sum(b), b)
	if err != nil || !reflect.DeepEqual(again, r) {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "store: save",
			Msg: "a text in the request of a living sandbox is not UTF-8",
			Fix: "encode such a value, for instance as base64"}
	}
	return b, nil
}

// plain is a time without the monotonic clock, which no other process shares, and without a zone.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

func decode(id sandbox.ID, want int64, b []byte) (r sandbox.Record, err error) {
	if _, err := sandbox.ParseID(string(id)); err != nil {
		return r, err
	}
	if sum(b) != want {
		err = errors.New("its sum is wrong")
	} else if err = json.Unmarshal(b, &r); err == nil && r.ID != id {
		err = errors.New("it is that of another")
	}
	if err != nil {
		return r, &sandbox.Error{Kind: sandbox.Unavailable, Op: "store: load",
			Msg: "the record of sandbox " + string(id) + " is damaged", Err: err}
	}
	return r, nil
}

func sortByAge(records []sandbox.Record) {
	slices.SortFunc(records, func(a, b sandbox.Record) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
}
