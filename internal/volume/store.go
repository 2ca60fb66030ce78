package volume

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds of volumes.
const (
	LeastBytes   = 16 << 20
	MostBytes    = 16 << 40
	DefaultBytes = 1 << 30

	leastInodes   = 64
	bytesPerInode = 16 << 10 // of the default number of inodes, as in mke2fs(8)
)

// Options configures a store.
type Options struct {
	Dir    string // of this user alone
	RunDir string // of the live state of this process, for Lives of a later one
	// Lives reports whether the box of a sandbox exists below a folder of live state.
	Lives func(runDir string, id sandbox.ID) (bool, error)

	OwnerMost int   // volumes of one owner; 0 is no bound
	MaxBytes  int64 // of one volume; 0 is MostBytes
}

// Store keeps volumes in a folder that any number of processes share. Its methods are safe for concurrent use.
type Store struct {
	options Options
	// one volume of an owner is made at a time: formatting takes CPU time and memory of the host
	turns *room.Room

	preparing sync.Mutex // guards prepared
	prepared  bool       // the folder is made

	mu     sync.Mutex       // guards all below
	kept   map[string]*disk // mounted file systems, by the path of their file
	closed bool
}

// New returns a store. The first use makes its folder.
func New(o Options) *Store {
	return &Store{options: o, kept: map[string]*disk{}, turns: room.New(math.MaxInt64, 1)}
}

// open makes the folder. After a failure, the next use tries again.
func (s *Store) open() error {
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared {
		return nil
	}
	err := s.prepare()
	s.prepared = err == nil
	return err
}

// The content of a volume's folder.
const (
	recordFile = "record"
	lockFile   = "lock"
	usersDir   = "users"
	diskFile   = "disk"
	filesDir   = "files"

	temporary = "new-" // begins the names of folders that are made or removed; a crash leaves them
)

// record describes a volume on disk.
type record struct {
	Name    string    `json:"name"`
	Owner   string    `json:"owner"`
	Bytes   int64     `json:"bytes"`
	Inodes  int64     `json:"inodes"`
	Disk    bool      `json:"disk"` // diskFile has its files; otherwise filesDir
	Created time.Time `json:"created"`
}

// prepare makes the folder, and removes what a killed process left half made or half removed.
func (s *Store) prepare() error {
	if !filepath.IsAbs(s.options.Dir) {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "volumes", Msg: "they need a folder",
			Fix: "set HOME, or name a folder: --state-dir DIR"}
	}
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return failed("make the folder of volumes", err)
	}
	unlock, err := locked(context.Background(), s.path(lockFile))
	if err != nil {
		return failed("lock the volumes", err)
	}
	defer unlock()
	left, err := filepath.Glob(s.path(temporary + "*"))
	for _, dir := range left {
		if !isBeingMade(dir) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return failed("remove incomplete volumes", err)
}

// isBeingMade reports whether a process has the lock of a temporary folder. The caller holds the lock of the volumes.
func isBeingMade(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	err = filelock.Try(f)
	_ = filelock.Close(f)
	return filelock.Held(err)
}

func (s *Store) path(elements ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, elements...)...)
}

// failed classifies an error of the host as Unavailable. An error that has a kind keeps it.
func failed(step string, err error) error {
	var known *sandbox.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "volumes: " + step, Err: err}
}

// folder returns the name of a volume's folder. An owner may have any text as its name.
func folder(owner, name string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + name))
	return hex.EncodeToString(sum[:16])
}

// complete checks a request and fills in its defaults.
func (s *Store) complete(r *sandbox.VolumeRequest) error {
	if err := sandbox.CheckVolumeName(r.Name); err != nil {
		return err
	}
	most := int64(MostBytes)
	if s.options.MaxBytes > 0 {
		most = min(most, s.options.MaxBytes)
	}
	if r.Bytes == 0 {
		r.Bytes = min(DefaultBytes, most)
	}
	if r.Bytes < LeastBytes || r.Bytes > most {
		return sandbox.Invalidf("size", "%s is not from %s to %s", sandbox.FormatBytes(r.Bytes),
			sandbox.FormatBytes(LeastBytes), sandbox.FormatBytes(most))
	}
	r.Bytes = r.Bytes / blockSize * blockSize
	if r.Inodes == 0 {
		r.Inodes = r.Bytes / bytesPerInode
	}
	if r.Inodes < leastInodes || r.Inodes > r.Bytes/blockSize {
		return sandbox.Invalidf("inodes", "%d is not from %d to %d, the number of blocks", r.Inodes, leastInodes,
			r.Bytes/blockSize)
	}
	return nil
}

// Create makes a volume. Errors are Invalid, Exists if the owner has one of this name, Quota, and Unsupported where the
// host cannot bound it and the request does not waive that.
func (s *Store) Create(ctx context.Context, r sandbox.VolumeRequest) (v sandbox.NamedVolume, err error) {
	if err := s.complete(&r); err != nil {
		return v, err
	}
	if err := s.open(); err != nil {
		return v, err
	}
	if !s.turns.Wait(ctx, r.Owner, 1, math.MaxInt64) {
		return v, context.Cause(ctx)
	}
	defer s.turns.Give(r.Owner, 1)
	rec := record{Name: r.Name, Owner: r.Owner, Bytes: r.Bytes, Inodes: r.Inodes, Created: time.Now().UTC()}
	if err := s.make(ctx, &rec, r.AllowUnenforced); err != nil {
		return v, err
	}
	return s.Find(rec.Owner, rec.Name) // it may be removed by now
}

// admit refuses a volume whose owner has one of its name, or has all that it may have. The caller holds the lock of the
// volumes.
func (s *Store) admit(rec *record) error {
	if _, err := s.read(folder(rec.Owner, rec.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := s.records()
	if err != nil {
		return err
	}
	own := 0
	for _, other := range all {
		if other.Owner == rec.Owner {
			own++
			if other.Name == rec.Name {
				return &sandbox.Error{Kind: sandbox.Exists, Op: "volume", Msg: "a volume named " + rec.Name +
					" exists", Fix: "choose another name, or use the existing one"}
			}
		}
	}
	if most := s.options.OwnerMost; most > 0 && own >= most {
		return &sandbox.Error{Kind: sandbox.Quota, Op: "volume",
			Msg: fmt.Sprintf("you have %d volumes, the most that are allowed", own),
			Fix: "remove one that is no longer needed"}
	}
	if !rec.Disk { // it is not made yet, or has no bound
		return nil
	}
	return s.checkPromised(rec, all)
}

// make makes a volume in a temporary folder, and renames it when it is complete. Other volumes do not wait for mkfs:
// admit decides before, and again at the end.
func (s *Store) make(ctx context.Context, rec *record, waived []string) (err error) {
	dir, unlock, err := s.draft(ctx, rec)
	if err != nil {
		return err
	}
	defer func() {
		unlock()
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err = makeDisk(ctx, filepath.Join(dir, diskFile), rec); err == nil {
		rec.Disk = true
	} else if len(sandbox.UnenforcedOf(err)) > 0 && waivesAll(waived) {
		err = makeFiles(filepath.Join(dir, filesDir))
	}
	if err != nil {
		return failed("make the file system", err)
	}
	text, err := json.Marshal(rec)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, usersDir), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, recordFile), text, 0o600)
	}
	for _, name := range []string{recordFile, diskFile, ""} {
		if err == nil && (rec.Disk || name != diskFile) {
			err = synced(filepath.Join(dir, name))
		}
	}
	if err != nil {
		return failed("make the volume", err)
	}
	unlockAll, err := locked(ctx, s.path(lockFile))
	if err != nil {
		return failed("lock the volumes", err)
	}
	defer unlockAll()
	if err = s.admit(rec); err == nil {
		err = os.Rename(dir, s.path(folder(rec.Owner, rec.Name)))
	}
	if err == nil {
		err = synced(s.options.Dir)
	}
	return failed("make the volume", err)
}

// synced waits until a file, or the names in a folder, are on the disk. Windows has no such call for either.
func synced(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// draft makes a temporary folder, with a lock that keeps other processes from removing it.
func (s *Store) draft(ctx context.Context, rec *record) (dir string, unlock func(), err error) {
	unlockAll, err := locked(ctx, s.path(lockFile))
	if err != nil {
		return "", nil, failed("lock the volumes", err)
	}
	defer unlockAll()
	if err := s.admit(rec); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(s.options.Dir, temporary); err == nil {
		unlock, err = locked(ctx, filepath.Join(dir, lockFile))
	}
	return dir, unlock, failed("make a folder", err)
}

// unbounded lists the limits that a volume without a file system lacks.
var unbounded = []sandbox.LimitName{sandbox.LimitDisk, sandbox.LimitInodes}

func waivesAll(waived []string) bool {
	return !slices.ContainsFunc(unbounded, func(n sandbox.LimitName) bool {
		return !slices.Contains(waived, string(n))
	})
}

// cannotBound is the error of a host that cannot enforce the size of a volume.
func cannotBound(why, fix string, err error) error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "volume: limit disk, inodes", Msg: why, Fix: fix, Err: err,
		Unenforced: unbounded}
}

// records returns all volumes by owner and name, except those whose records are damaged: they concern only their owner.
func (s *Store) records() (all []record, err error) {
	entries, err := os.ReadDir(s.options.Dir)
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), temporary) {
			continue
		}
		rec, err := s.read(e.Name())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) {
			continue // removed meanwhile, or found by its name only
		}
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	slices.SortFunc(all, func(a, b record) int {
		if c := strings.Compare(a.Owner, b.Owner); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, failed("list the volumes", err)
}

func (s *Store) read(dir string) (rec record, err error) {
	text, err := os.ReadFile(s.path(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, err
	}
	if err == nil && (json.Unmarshal(text, &rec) != nil || folder(rec.Owner, rec.Name) != dir) {
		return record{}, &sandbox.Error{Kind: sandbox.Unavailable, Op: "volume", Msg: "its record is damaged",
			Err: errDamaged,
			Fix: "restore the file record in " + dir + " of the folder of volumes, or remove the volume"}
	}
	return rec, failed("read the record "+s.path(dir, recordFile), err)
}

// errDamaged is the error of a record that is not that of its volume.
var errDamaged = errors.New("damaged")

// Find returns a volume of an owner. NotFound: it has none of this name.
func (s *Store) Find(owner, name string) (v sandbox.NamedVolume, err error) {
	rec, err := s.find(owner, name)
	if err != nil {
		return v, err
	}
	v, err = s.describe(rec)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		err = notFound(name)
	}
	return v, err
}

func (s *Store) find(owner, name string) (rec record, err error) {
	if err := sandbox.CheckVolumeName(name); err != nil {
		return rec, err
	}
	if err := s.open(); err != nil {
		return rec, err
	}
	rec, err = s.read(folder(owner, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = notFound(name)
	}
	return rec, err
}

func notFound(name string) error {
	return &sandbox.Error{Kind: sandbox.NotFound, Op: "volume", Msg: "no volume is named " + name,
		Fix: "create it first, with its size"}
}

// List returns the volumes of an owner, by name. It reads the records of all owners. For each it calls report, if that
// is not nil: with the number of its users, or with 0 for a volume of another owner.
func (s *Store) List(owner string, report func(users int)) ([]sandbox.NamedVolume, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	if report == nil {
		report = func(int) {}
	}
	list := []sandbox.NamedVolume{}
	for _, rec := range all {
		if rec.Owner != owner {
			report(0)
			continue
		}
		v, err := s.describe(rec)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		report(len(v.Users))
	}
	return list, nil
}

// describe adds the users of a volume and its use of the disk to its record.
func (s *Store) describe(rec record) (sandbox.NamedVolume, error) {
	v := sandbox.NamedVolume{Name: rec.Name, Owner: rec.Owner, Bytes: rec.Bytes, Inodes: rec.Inodes, UsedBytes: -1,
		Created: rec.Created}
	dir := s.path(folder(rec.Owner, rec.Name))
	if rec.Disk {
		v.Enforcer = diskEnforcer
		var err error
		if v.UsedBytes, err = allocated(filepath.Join(dir, diskFile)); err != nil {
			return v, err
		}
	}
	unlock, err := locked(context.Background(), filepath.Join(dir, lockFile))
	if err != nil {
		return v, err
	}
	defer unlock()
	v.Users, err = s.users(dir, math.MaxInt)
	return v, failed("list the users of "+rec.Name, err)
}

// Remove removes a volume that no sandbox uses, with its files, also one with a damaged record. NotFound: the owner has
// none of this name. Exists: a sandbox uses it.
func (s *Store) Remove(ctx context.Context, owner, name string) error {
	if _, err := s.find(owner, name); err != nil && !errors.Is(err, errDamaged) {
		return err
	}
	gone, unused, err := s.take(ctx, owner, name)
	if err != nil {
		return err
	}
	unused.close() // before the file is removed, so that its blocks are freed; both take a while, so no lock is held
	return failed("remove "+name, os.RemoveAll(gone))
}

// take renames the folder of a volume that no sandbox uses to a temporary one. It returns that folder and, if it is
// still mounted, the file system. It waits for the lock of the volume, which a mount may hold for a while, without the
// lock of all volumes.
func (s *Store) take(ctx context.Context, owner, name string) (gone string, unused *disk, err error) {
	dir := s.path(folder(owner, name))
	unlock, err := locked(ctx, filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, notFound(name)
	}
	if err != nil {
		return "", nil, failed("lock "+name, err)
	}
	defer unlock()
	users, err := s.users(dir, 1)
	if err != nil {
		return "", nil, failed("list the users of "+name, err)
	}
	if len(users) > 0 {
		return "", nil, &sandbox.Error{Kind: sandbox.Exists, Op: "volume",
			Msg: fmt.Sprintf("%s is in use by sandbox %s", name, users[0].Sandbox), Fix: "end its sandboxes first"}
	}
	unlockAll, err := locked(ctx, s.path(lockFile))
	if err != nil {
		return "", nil, failed("lock the volumes", err)
	}
	defer unlockAll()
	gone = s.path(temporary + rand.Text())
	if err := os.Rename(dir, gone); err != nil {
		return "", nil, failed("remove "+name, err)
	}
	return gone, s.forget(filepath.Join(dir, diskFile)), nil
}
