package store

import (
	"encoding/json"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// version counts up with the form of a record. A newer one is refused.
const version = 1

// maxFile bounds the size of a record's file in bytes.
const maxFile = MaxRecord + 1024

// file is the content of a record's file, as JSON. All versions have these fields.
type file struct {
	Version int             `json:"version"`
	Sum     uint32          `json:"sum"`
	Record  json.RawMessage `json:"record"`
}

// sum is the checksum of the version and the record.
func (f file) sum() uint32 {
	return crc32.Checksum(append(strconv.AppendInt(nil, int64(f.Version), 10), f.Record...), castagnoli)
}

// encode makes sure that decode returns the same record. JSON would replace what is not UTF-8 in an environment or a
// path, and a sandbox would be reattached with another spec than it has. It calls turn with the size of the record
// before most of its work, and done after it.
func encode(r sandbox.Record, turn func(bytes int) (done func())) ([]byte, error) {
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
	defer turn(len(b))()
	f := file{Version: version, Record: b}
	f.Sum = f.sum()
	if b, err = json.Marshal(f); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Internal, Op: "store: save", Err: err}
	}
	again, err := decode(r.ID, b)
	if err != nil || !reflect.DeepEqual(again, r) {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "store: save",
			Msg: "a text in the request of a living sandbox is not UTF-8",
			Fix: "encode such a value, for instance as base64"}
	}
	return b, nil
}

// plain is a time without the monotonic clock, which no other process shares, and without a zone.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// decode returns the record in the content of a file. Its error names the sandbox; it wraps newerError for a newer
// version.
func decode(id sandbox.ID, content []byte) (r sandbox.Record, err error) {
	var f file
	err = json.Unmarshal(content, &f)
	switch {
	case err != nil:
	case f.Sum != f.sum():
		err = errors.New("its sum is wrong")
	case f.Version > version:
		err = &newerError{f.Version}
	default:
		if err = json.Unmarshal(f.Record, &r); err == nil && r.ID != id {
			err = errors.New("it is that of another")
		}
	}
	if err != nil {
		return sandbox.Record{}, damaged(id, err)
	}
	return r, nil
}

func damaged(id sandbox.ID, err error) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "store: load",
		Msg: "the record of sandbox " + string(id) + " is damaged", Err: err}
}

func sortByAge(records []sandbox.Record) {
	slices.SortFunc(records, func(a, b sandbox.Record) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
}
