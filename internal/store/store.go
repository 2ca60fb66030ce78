// Package store keeps what must outlive the process about living sandboxes, in one SQLite file that one process has
// open.
//
// Writes are rare: a sandbox is made or ends, a context is made. So each is one transaction with a rollback journal and
// is synced to the disk: it survives a kill at any instant, a full disk and a power failure, and at rest there is one
// file. Only SQLite opens that file once it exists: closing another descriptor of it would drop this process's locks
// (fcntl(2)).
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Bounds of a store.
const (
	EndedFor  = 24 * time.Hour // records of ended sandboxes, for the reason of their end
	EndedMost = 1000
	MaxRecord = 4 << 20 // bytes of one record's encoding
)

// The marks of a store's file. The version counts up with the schema; a newer one is refused.
const (
	applicationID = 0x46756d65 // "Fume"
	version       = 1
)

// schema has a sum for each record: SQLite notices damage of its structure, not of the content.
const schema = `
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, ended INTEGER NOT NULL, sum INTEGER NOT NULL, record BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX ended ON sandboxes (ended) WHERE ended <> 0;`

// Store is an open store. Its methods may be called at the same time.
type Store struct {
	path string
	db   *sql.DB
	conn *sql.Conn // the only one; it has the lock

	mu sync.Mutex // held during a transaction
}

// Open opens the store in a file, named by an absolute path without links, or makes it. The file is refused, and stays
// as it is, with Busy if another process has it open, and with Unavailable if it is damaged, not a store, or of a newer
// version.
func Open(path string) (*Store, error) {
	if err := prepare(path); err != nil {
		return nil, err
	}
	// The first transaction takes the lock, and the connection keeps it. journal_mode stays as it is: to set it would
	// change another program's file.
	name := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": {
		"locking_mode(exclusive)", "synchronous(full)", "trusted_schema(off)", "cell_size_check(on)"}}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, failed("open", path, err)
	}
	s := &Store{path: path, db: db}
	if s.conn, err = db.Conn(context.Background()); err != nil {
		db.Close()
		return nil, failed("open", path, err)
	}
	if err := s.check(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare makes the file if it is missing, closed to others, and refuses links.
func prepare(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return sandbox.Invalidf("store", "%q is not a clean absolute path", path)
	}
	info, err := nolink.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made, err := nolink.Open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return failed("make", path, err)
		}
		return failed("make", path, made.Close())
	case err != nil:
		return failed("open", path, err)
	case !info.Mode().IsRegular():
		return refuse(path, "it is not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return failed("close to others", path, os.Chmod(path, 0o600))
	}
	return nil
}

// check takes the lock, makes sure that the file is a whole store of this version, fills a new one, and removes old
// records.
func (s *Store) check() error {
	return s.write("open", func() error {
		var application, found, tables int64
		var sound string
		for query, to := range map[string]any{"PRAGMA application_id": &application, "PRAGMA user_version": &found,
			"SELECT count(*) FROM sqlite_schema": &tables} {
			if err := s.scan(query, to); err != nil {
				return err
			}
		}
		switch {
		case application == 0 && found == 0 && tables == 0:
			return s.exec(fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID,
				version))
		case application != applicationID:
			return refuse(s.path, "it is an SQLite file of another program")
		case found > version:
			return newer(s.path, found)
		case found < version:
			return refuse(s.path, fmt.Sprintf("it is damaged: there never was a version %d", found))
		}
		if err := s.scan("PRAGMA quick_check(1)", &sound); err != nil {
			return err
		}
		if sound != "ok" {
			return refuse(s.path, "it is damaged: "+sound)
		}
		if err := s.prune(); err != nil {
			return err
		}
		// finds out now whether the folder can be written to
		return s.exec(fmt.Sprintf("PRAGMA user_version = %d", version))
	})
}

// write runs one transaction.
func (s *Store) write(step string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.exec("BEGIN EXCLUSIVE")
	if err == nil {
		if err = do(); err == nil {
			err = s.exec("COMMIT")
		}
		if err != nil {
			_ = s.exec("ROLLBACK") // fails where SQLite has done it already, as on a full disk
		}
	}
	return failed(step, s.path, err)
}

func (s *Store) exec(statement string, args ...any) error {
	_, err := s.conn.ExecContext(context.Background(), statement, args...)
	return err
}

func (s *Store) scan(query string, to any) error {
	return s.conn.QueryRowContext(context.Background(), query).Scan(to)
}

// prune removes what is beyond the bounds. It reads the index alone, unless there is something to remove.
func (s *Store) prune() error {
	return s.exec(`DELETE FROM sandboxes WHERE ended <> 0 AND ended <= max(?,
		ifnull((SELECT ended FROM sandboxes WHERE ended <> 0 ORDER BY ended DESC LIMIT 1 OFFSET ?), 0))`,
		time.Now().Add(-EndedFor).UnixNano(), EndedMost)
}

// Save inserts or replaces a record. It is in the file when Save returns. A record that could not be restored exactly
// is Invalid.
func (s *Store) Save(r sandbox.Record) error {
	b, err := encode(r)
	if err != nil {
		return err
	}
	ended := int64(0)
	if !r.Ended.IsZero() {
		ended = r.Ended.UnixNano()
	}
	return s.write("save", func() error {
		err := s.exec("INSERT OR REPLACE INTO sandboxes VALUES (?, ?, ?, ?)", string(r.ID), ended, sum(b), b)
		if err == nil && ended != 0 {
			err = s.prune()
		}
		return err
	})
}

// Remove removes a record. An unknown id is no error.
func (s *Store) Remove(id sandbox.ID) error {
	return s.write("remove", func() error { return s.exec("DELETE FROM sandboxes WHERE id = ?", string(id)) })
}

// Damaged is a record that cannot be read. It stays until it is removed or replaced.
type Damaged struct {
	ID  sandbox.ID
	Err error
}

// Load returns all records, the oldest sandbox first, and which ones cannot be read.
func (s *Store) Load() (records []sandbox.Record, damaged []Damaged, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := s.conn.QueryContext(context.Background(), "SELECT id, sum, record FROM sandboxes")
	if err != nil {
		return nil, nil, failed("load", s.path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var want int64
		var b []byte
		if err := rows.Scan(&id, &want, &b); err != nil {
			return nil, nil, failed("load", s.path, err)
		}
		r, err := decode(sandbox.ID(id), want, b)
		if err != nil {
			damaged = append(damaged, Damaged{sandbox.ID(id), err})
			continue
		}
		records = append(records, r)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, failed("load", s.path, err)
	}
	sortByAge(records)
	return records, damaged, nil
}

// Close closes the file and gives up its lock. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.conn.Close()
	if errors.Is(err, sql.ErrConnDone) { // closed before
		err = nil
	}
	return failed("close", s.path, errors.Join(err, s.db.Close()))
}
