package engine

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// save puts the record into the store.
func (s *Sandbox) save() error { return s.amend(func(*sandbox.Record) {}) }

// amend changes the record, first in the store, and in memory if the store has it: no answer reports what the next
// server would not find. change is called twice, with mu held, and assigns to fields; it is the only way to change the
// record of a living sandbox.
func (s *Sandbox) amend(change func(*sandbox.Record)) error { return s.amendThen(change, func() {}) }

// amendThen is amend, and calls then with mu held if the store has the change.
func (s *Sandbox) amendThen(change func(*sandbox.Record), then func()) error {
	s.locks.saving.Lock()
	defer s.locks.saving.Unlock()
	if s.locks.ended != nil {
		return s.endedBy(s.locks.ended.Reason)
	}
	if err := s.Ended(); sandbox.KindOf(err) == sandbox.NotFound { // and that could not be saved yet
		return err
	}
	s.mu.Lock()
	record := s.record
	change(&record)
	s.mu.Unlock()
	if err := s.store(record); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.record)
	then()
	return nil
}

// recordEnd puts the end of the sandbox on record, before any answer reports it. If the server is killed before the box
// is closed, the next one closes it. If it cannot be saved, saveEnd tries again.
func (s *Sandbox) recordEnd(reason string) {
	s.locks.saving.Lock()
	defer s.locks.saving.Unlock()
	s.saveEndNow(reason)
}

// saveEndNow is recordEnd for a caller that holds locks.saving.
func (s *Sandbox) saveEndNow(reason string) {
	if s.locks.ended != nil {
		return
	}
	s.mu.Lock()
	record := s.record
	s.mu.Unlock()
	record.Ended, record.Reason = time.Now(), reason
	if err := s.store(record); err != nil {
		s.engine.log.Warn("could not record the end of a sandbox yet", "sandbox", s.id, "err", err)
		return
	}
	s.locks.ended = &record
}

// saveEnd puts the record of an ended sandbox into the store, unless recordEnd did.
func (s *Sandbox) saveEnd() error {
	s.locks.saving.Lock()
	defer s.locks.saving.Unlock()
	s.mu.Lock()
	record := s.record
	s.mu.Unlock()
	if s.locks.ended != nil && s.locks.ended.Reason == record.Reason {
		return nil
	}
	return s.store(record)
}

// store puts a record into the store. The caller holds locks.saving, so that an older one never replaces a newer one.
func (s *Sandbox) store(record sandbox.Record) error {
	if s.engine.config.Living.Store == nil || s.oneShot {
		return nil
	}
	if !record.Ended.IsZero() {
		record = tombstone(record)
	}
	n, err := s.engine.config.Living.Store.Save(record)
	s.locks.saved.Add(int64(n))
	s.locks.last.Store(int64(n))
	return err
}

// Saved returns the bytes of all records of the sandbox that were saved, and of the last one. They take CPU time to
// encode.
func (s *Sandbox) Saved() (all, last int64) { return s.locks.saved.Load(), s.locks.last.Load() }

// Compared returns the time that comparisons of the sandbox's open connections with new rules took.
func (s *Sandbox) Compared() time.Duration { return time.Duration(s.locks.compared.Load()) }
