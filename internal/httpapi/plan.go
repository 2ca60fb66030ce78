package httpapi

import (
	"reflect"
	"strings"
	"sync"
)

// maxFields is the limit of fields in a JSON object of a request: the decoder marks seen ones in one word.
const maxFields = 64

// structPlan has the fields of a struct type for the decoder.
type structPlan struct {
	fields []reflect.StructField
	names  []string       // in JSON, by field
	index  map[string]int // name in JSON -> field
	known  []string       // names and dotted paths, to suggest for a misspelt name
}

var plans sync.Map // reflect.Type -> *structPlan; bounded by the types of package api

func planOf(t reflect.Type) *structPlan {
	if p, ok := plans.Load(t); ok {
		return p.(*structPlan)
	}
	p := &structPlan{index: map[string]int{}}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" || name == "" {
			continue
		}
		p.index[name] = len(p.fields)
		p.fields = append(p.fields, f)
		p.names = append(p.names, name)
		p.known = append(p.known, name)
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			for _, below := range planOf(inner).names {
				p.known = append(p.known, name+"."+below)
			}
		}
	}
	if len(p.fields) > maxFields {
		panic("httpapi: too many fields in " + t.String())
	}
	plans.Store(t, p)
	return p
}
