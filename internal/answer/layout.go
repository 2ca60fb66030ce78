package answer

import (
	"maps"
	"slices"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// JSONOf returns the JSON of an *api.Answer, an *api.Outcome or the data of an event, which it modifies.
func JSONOf(v any) *largejson.JSON {
	l := largejson.NewLayout()
	switch v := v.(type) {
	case *api.Answer:
		layOutAnswer(l, v)
	case *api.Outcome:
		layOutOutcome(l, v)
	case *api.OutputPiece:
		l.String(&v.Text)
		l.Bytes(&v.Base64)
	case *api.ResultEvent:
		layOutResult(l, &v.Result)
	case *api.ExceptionEvent:
		layOutException(l, &v.Exception)
	}
	return l.Around(v)
}

func layOutAnswer(l *largejson.Layout, a *api.Answer) {
	l.String(&a.Stdout)
	l.String(&a.Stderr)
	for i := range a.Results {
		layOutResult(l, &a.Results[i])
	}
	l.String(&a.Text)
	if a.Output != nil {
		l.Bytes(&a.Output.Stdout.Base64)
		l.Bytes(&a.Output.Stderr.Base64)
	}
	layOutOutcome(l, &a.Outcome)
}

func layOutResult(l *largejson.Layout, r *api.Result) {
	for _, form := range slices.Sorted(maps.Keys(r.Data)) { // as encoding/json sorts them
		data := r.Data[form]
		l.String(&data)
		r.Data[form] = data
	}
}

func layOutException(l *largejson.Layout, e *sandbox.Exception) {
	l.String(&e.Name)
	l.String(&e.Value)
	l.String(&e.Traceback)
}

func layOutOutcome(l *largejson.Layout, o *api.Outcome) {
	if o.Exception != nil {
		exception := *o.Exception
		o.Exception = &exception
		layOutException(l, &exception)
	}
	for i := range o.Files {
		if f := &o.Files[i]; f.Content != nil {
			l.String(f.Content)
		} else {
			l.Bytes(&f.ContentBase64)
		}
	}
	if o.Compile != nil {
		l.String(&o.Compile.Stdout)
		l.String(&o.Compile.Stderr)
	}
}
