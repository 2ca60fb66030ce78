package shared

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	answerPrefix = "glovebox:packages:answer:"
	lockPrefix   = "glovebox:packages:lock:"

	// dialTimeout bounds the steps of dialling that have no context of ours.
	dialTimeout = 2 * time.Second
)

// redisAnswers implements deps.Answers.
type redisAnswers struct{ address string }

// do has a fresh connection do something.
func (r redisAnswers) do(ctx context.Context, what func(redis.Conn) error) error {
	c, err := redis.DialURLContext(ctx, r.address, redis.DialConnectTimeout(dialTimeout), redis.DialReadTimeout(dialTimeout), redis.DialWriteTimeout(dialTimeout),
		redis.DialTLSHandshakeTimeout(dialTimeout))
	if err != nil {
		return err
	}
	return errors.Join(what(c), c.Close())
}

func (r redisAnswers) Get(ctx context.Context, key string, most int) (value []byte, err error) {
	err = r.do(ctx, func(c redis.Conn) error {
		value, err = redis.Bytes(redis.DoContext(c, ctx, "GETRANGE", answerPrefix+key, 0, most-1)) // "" if there is none
		return err
	})
	return value, err
}

func (r redisAnswers) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.do(ctx, func(c redis.Conn) error {
		_, err := redis.DoContext(c, ctx, "SET", answerPrefix+key, value, "PX", max(ttl.Milliseconds(), 1))
		return err
	})
}

// takeLock sets the lock unless another holder has it, freeLock removes it if the holder has it. A script is one step for all clients.
var (
	takeLock = redis.NewScript(1, `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)
	freeLock = redis.NewScript(1, `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
)

func (r redisAnswers) Lock(ctx context.Context, key, holder string, lease time.Duration) (got bool, err error) {
	err = r.do(ctx, func(c redis.Conn) error {
		got, err = redis.Bool(takeLock.DoContext(ctx, c, lockPrefix+key, holder, max(lease.Milliseconds(), 1)))
		return err
	})
	return got, err
}

func (r redisAnswers) Unlock(ctx context.Context, key, holder string) error {
	return r.do(ctx, func(c redis.Conn) error {
		_, err := freeLock.DoContext(ctx, c, lockPrefix+key, holder)
		return err
	})
}
