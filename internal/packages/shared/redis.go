package shared

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	answerPrefix = "fumehood:packages:answer:"
	lockPrefix   = "fumehood:packages:lock:"

	// callTimeout limits a call, from dialing to the reply.
	callTimeout = 2 * time.Second
)

// redisAnswers implements packages.Answers.
type redisAnswers struct {
	address *url.URL
	tls     *tls.Config // nil means the system's roots
}

// do runs a command on a new connection. A bulk reply has at most that many bytes.
func (r redisAnswers) do(ctx context.Context, most int, command ...string) (reply []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := r.dial(ctx)
	if err == nil {
		defer context.AfterFunc(ctx, func() { c.Close() })() // ends reads and writes
		defer c.Close()
		reply, err = r.talk(c, most, command)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return reply, err
}

func (r redisAnswers) dial(ctx context.Context) (net.Conn, error) {
	port := r.address.Port()
	if port == "" {
		port = "6379"
	}
	address := net.JoinHostPort(r.address.Hostname(), port)
	if r.address.Scheme == "rediss" {
		return (&tls.Dialer{Config: r.tls}).DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// errAuth has no text of the server, which may repeat a part of the password: servers without AUTH repeat a command.
var errAuth = errors.New("the server refuses the user or the password of its address")

// talk authenticates and selects the database as the address says, and then runs the command.
func (r redisAnswers) talk(c net.Conn, most int, command []string) (reply []byte, err error) {
	in := bufio.NewReaderSize(c, maxLine)
	user := r.address.User.Username()
	password, has := r.address.User.Password()
	if !has { // a single word is the password
		user, password = "", user
	}
	switch {
	case password == "":
	case user == "":
		_, err = exchange(c, in, 0, "AUTH", password)
	default:
		_, err = exchange(c, in, 0, "AUTH", user, password)
	}
	if said := refusal(""); errors.As(err, &said) {
		return nil, errAuth
	}
	if database, _ := strconv.Atoi(strings.TrimPrefix(r.address.Path, "/")); err == nil && database > 0 {
		_, err = exchange(c, in, 0, "SELECT", strconv.Itoa(database))
	}
	if err == nil {
		reply, err = exchange(c, in, most, command...)
	}
	if said := refusal(""); errors.As(err, &said) && password != "" {
		err = refusal(strings.ReplaceAll(string(said), password, "...")) // some servers repeat unknown commands
	}
	return reply, err
}

func (r redisAnswers) Get(ctx context.Context, key string, most int) ([]byte, error) {
	return r.do(ctx, most, "GETRANGE", answerPrefix+key, "0", strconv.Itoa(most-1)) // "" without a value
}

func (r redisAnswers) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	_, err := r.do(ctx, 0, "SET", answerPrefix+key, string(value), "PX", milliseconds(ttl))
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// takeLock sets the lock unless another holder has it. freeLock removes it if the holder has it. Redis runs scripts
// atomically.
const (
	takeLock = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
	freeLock = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`
)

func (r redisAnswers) Lock(ctx context.Context, key, holder string, lease time.Duration) (bool, error) {
	reply, err := r.do(ctx, 0, "EVAL", takeLock, "1", lockPrefix+key, holder, milliseconds(lease))
	return string(reply) == "1", err
}

func (r redisAnswers) Unlock(ctx context.Context, key, holder string) error {
	_, err := r.do(ctx, 0, "EVAL", freeLock, "1", lockPrefix+key, holder)
	return err
}
