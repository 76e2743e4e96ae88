package envoy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/heraldbridge/herald/internal/secret"
)

// roots tell which Go type holds which place of a reply.
var roots = map[Tool]map[string]reflect.Type{
	ToolStatus: {
		"purchase": reflect.TypeFor[Purchase](), "next": reflect.TypeFor[Next](), "user_action": reflect.TypeFor[UserAction](),
	},
	ToolAccount: {
		"data.account.active_purchase": reflect.TypeFor[Purchase](), "data.account.held_purchases": reflect.TypeFor[HeldPurchases](),
	},
	ToolList: {"data.purchases[]": reflect.TypeFor[ListItem]()},
}

// places of the schema, with whether they or a place above are never decoded.
func places(n *node) map[string]bool {
	out := map[string]bool{}
	var walk func(n *node, path string, banned bool)
	walk = func(n *node, path string, banned bool) {
		banned = banned || n.Secret || never[path]
		out[path] = banned
		for name, c := range n.Properties {
			walk(c, strings.TrimPrefix(path+"."+name, "."), banned)
		}
		if n.Items != nil {
			walk(n.Items, path+"[]", banned)
		}
	}
	walk(n, "", false)
	return out
}

func TestNoFieldCanHoldASecret(t *testing.T) {
	for _, tool := range tools {
		known := places(schema(t, tool))
		var secrets int
		for _, banned := range known {
			if banned {
				secrets++
			}
		}
		if secrets < 6 {
			t.Errorf("%s: only %d places are banned", tool, secrets)
		}
		var walk func(typ reflect.Type, path string)
		walk = func(typ reflect.Type, path string) {
			banned, ok := known[path]
			if !ok || banned {
				t.Errorf("%s: a field for %q, which is banned (%v) or not in the contract", tool, path, banned)
			}
			switch typ.Kind() {
			case reflect.Pointer:
				walk(typ.Elem(), path)
			case reflect.Slice:
				if typ == reflect.TypeFor[json.RawMessage]() && path == "next.args" {
					return
				}
				walk(typ.Elem(), path+"[]")
			case reflect.Struct:
				if typ.PkgPath() == "time" {
					return
				}
				for i := range typ.NumField() {
					name := typ.Field(i).Tag.Get("json")
					if name == "" {
						t.Errorf("%s.%s has no name in the contract", typ, typ.Field(i).Name)
					}
					walk(typ.Field(i).Type, path+"."+name)
				}
			case reflect.String, reflect.Bool, reflect.Int64:
			default:
				t.Errorf("%s: %q has type %s, which holds anything", tool, path, typ)
			}
		}
		for path, typ := range roots[tool] {
			walk(typ, path)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Status](), reflect.TypeFor[Look](), reflect.TypeFor[List]()} {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !slices.Contains([]string{"Meta", "Purchase", "Next", "UserAction", "Active", "Held", "AgentID", "Items", "Truncated"}, f.Name) {
				t.Errorf("%s.%s is new: add its place to the roots of this test", typ, f.Name)
			}
		}
	}
}

// planted makes a full reply with canaries wherever nothing is decoded.
func planted(t testing.TB, tool Tool, ok bool) []byte {
	t.Helper()
	m := sample(schema(t, tool), "", false).(map[string]any)
	m["ok"], m["tool"] = ok, string(tool)
	delete(m, "origin")
	if ok {
		m["error"] = nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(raw, []byte(canary)); n < 4 {
		t.Fatalf("only %d canaries", n)
	}
	return raw
}

func TestPlantedSecretsAreNotKept(t *testing.T) {
	for _, tool := range tools {
		for _, ok := range []bool{true, false} {
			got, err := ask(answers(200, planted(t, tool, ok)), tool)
			if ok != (err == nil) {
				t.Fatalf("%s: %v", tool, err)
			}
			wantNoText(t, got, canary)
			wantNoText(t, err, canary)
		}
	}
}

// spy is a body that remembers the memory it was read into.
type spy struct {
	io.Reader
	lent [][]byte
}

func (s *spy) Read(p []byte) (int, error) {
	s.lent = append(s.lent, p[:cap(p)])
	return s.Reader.Read(p)
}

func (s *spy) Close() error { return nil }

func TestBufferIsWipedAfterDecoding(t *testing.T) {
	whole := planted(t, ToolStatus, true)
	large := bytes.Replace(whole, []byte(`{`), []byte(`{"pad":"`+strings.Repeat(canary, 50_000)+`",`), 1)
	for name, tc := range map[string]struct {
		body   []byte
		status int
		broken error
		kind   OutageKind
	}{
		"decoded":         {whole, 200, nil, ""},
		"grown":           {large, 200, nil, ""},
		"malformed":       {whole[:len(whole)-1], 200, nil, OutageMalformed},
		"page":            {[]byte("<html>" + canary), 502, nil, OutageStatus},
		"reset meanwhile": {whole, 200, errors.New("reset"), OutageReset},
		"too large":       {bytes.Repeat([]byte(canary), maxReply/len(canary)+1), 200, nil, OutageTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spy{Reader: bytes.NewReader(tc.body)}
			if tc.broken != nil {
				s.Reader = io.MultiReader(s.Reader, failing{tc.broken})
			}
			c := client(roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: tc.status, Body: s, ContentLength: -1}, nil
			}))
			got, err := ask(c, ToolStatus)
			if tc.kind == "" && err != nil {
				t.Fatal(err)
			}
			if tc.kind != "" {
				wantOutage(t, got, err, tc.kind)
			}
			if len(s.lent) == 0 {
				t.Fatal("nothing was read")
			}
			for _, b := range s.lent {
				if i := bytes.IndexFunc(b, func(r rune) bool { return r != 0 }); i >= 0 {
					t.Fatalf("the buffer still holds %.40q", b[i:])
				}
			}
			wantNoText(t, got, canary)
			wantNoText(t, err, canary)
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// printed gives every usual way to print an error and each of its causes.
func printed(err error) string {
	out := ""
	for err != nil {
		out += fmt.Sprintf("%v %+v %#v %q\n", err, err, err, err)
		err = errors.Unwrap(err)
	}
	return out
}

func TestB39_ErrorsNameNoSecret(t *testing.T) {
	const path = "canary-path"
	for name, fail := range map[string]error{
		"url error":    &urlError{"https://user:" + canary + "@api.example.test/" + path + "?sig=" + canary},
		"header":       fmt.Errorf("net/http: invalid header field value %q", "Bearer "+token),
		"malformed":    fmt.Errorf("malformed HTTP response %q", canary),
		"stream":       fmt.Errorf("stream error: stream ID 1; %s", canary),
		"unexpected":   fmt.Errorf("read %s: %w", canary, io.ErrUnexpectedEOF),
		"unknown kind": errors.New(canary + token + path),
	} {
		t.Run(name, func(t *testing.T) {
			c := clientAt("https://api.example.test/"+path, roundTrip(func(*http.Request) (*http.Response, error) { return nil, fail }))
			got, err := ask(c, ToolStatus)
			if got != nil || err == nil {
				t.Fatal("no error")
			}
			for _, s := range []string{canary, token, path, "https://"} {
				if strings.Contains(printed(err), s) {
					t.Errorf("%q is in %s", s, printed(err))
				}
				wantNoText(t, err, s)
			}
			if !strings.Contains(err.Error(), string(ToolStatus)) {
				t.Errorf("%v does not name the tool", err)
			}
		})
	}
	for name, base := range map[string]string{
		"user":      "https://u:" + canary + "@api.example.test",
		"query":     "https://api.example.test/?sig=" + canary,
		"malformed": "https://api.example.test/%zz" + canary,
		"scheme":    "ftp://" + canary,
		"empty":     "",
	} {
		t.Run("base URL "+name, func(t *testing.T) {
			c := clientAt(base, roundTrip(func(*http.Request) (*http.Response, error) {
				t.Error("a request went out")
				return nil, errors.New("no")
			}))
			for _, tool := range tools {
				got, err := ask(c, tool)
				wantOutage(t, got, err, OutageClientOwn)
				if strings.Contains(printed(err), canary) {
					t.Errorf("%s", printed(err))
				}
			}
		})
	}
}

// urlError is an error as net/http makes them, with the address in it.
type urlError struct{ address string }

func (e *urlError) Error() string { return "Post " + e.address + ": connection broken" }

func TestReplyThatRepeatsTheTokenIsRefused(t *testing.T) {
	for _, ok := range []bool{true, false} {
		got, err := ask(answers(200, reply(t, ToolStatus, ok, func(m map[string]any) {
			in(m, "purchase")["status_text"] = "Bearer " + token
			m["request_id"] = token
		})), ToolStatus)
		wantOutage(t, got, err, OutageMalformed)
		wantNoText(t, err, token)
	}
}

func TestIdsForSupportAreIdsOrNothing(t *testing.T) {
	got, err := ask(answers(200, reply(t, ToolStatus, true, func(m map[string]any) {
		m["request_id"], m["trace_id"] = "req\n"+canary, strings.Repeat("a", 129)
	})), ToolStatus)
	if err != nil {
		t.Fatal(err)
	}
	if s := got.(*Status); s.RequestID != "" || s.TraceID != "" || s.Unknown != 2 {
		t.Errorf("%+v", s.Meta)
	}
}

// TestOnlyThreeToolsCanBeCalled holds the promise that the observer never acts:
// there are three addresses, no call takes a name, and the fourth is refused.
func TestOnlyThreeToolsCanBeCalled(t *testing.T) {
	asked := map[string]int{}
	c := client(roundTrip(func(r *http.Request) (*http.Response, error) {
		asked[r.Method+" "+r.URL.String()]++
		return nil, errors.New("enough")
	}))
	for _, tool := range tools {
		_, _ = ask(c, tool)
	}
	want := map[string]int{
		"POST https://api.example.test/tools/get_purchase_status": 1,
		"POST https://api.example.test/tools/get_account":         1,
		"POST https://api.example.test/tools/list_purchases":      1,
	}
	if !maps.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}
	for _, name := range schema(t, ToolStatus).Properties["next"].Properties["tool"].Enum {
		tool, ok := name.(string)
		if !ok || slices.Contains(tools, Tool(tool)) {
			continue
		}
		err := c.call(t.Context(), Tool(tool), []byte("{}"), 0, func(*decoder, *envelope) error { return nil })
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if !maps.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}

	typ := reflect.TypeFor[*Client]()
	var methods []string
	for i := range typ.NumMethod() {
		methods = append(methods, typ.Method(i).Name)
		for j := 1; j < typ.Method(i).Type.NumIn(); j++ {
			if in := typ.Method(i).Type.In(j); in == reflect.TypeFor[Tool]() || in.Kind() == reflect.String {
				t.Errorf("%s takes a name", typ.Method(i).Name)
			}
		}
	}
	if !slices.Equal(methods, []string{"List", "Look", "Status"}) {
		t.Errorf("methods are %v", methods)
	}
}

func TestTokenAndProofAreAskedAfreshAndNotSentWhenBroken(t *testing.T) {
	var digests [][32]byte
	sent := 0
	o := Options{
		BaseURL: "https://api.example.test", Token: bearer,
		Proof: func(_ context.Context, method, url string, digest [32]byte) (string, error) {
			if method != http.MethodPost || url != "https://api.example.test/tools/list_purchases" {
				t.Errorf("proof is for %s %s", method, url)
			}
			digests = append(digests, digest)
			return fmt.Sprintf("proof-%d", len(digests)), nil
		},
		HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent++
			body, _ := io.ReadAll(r.Body)
			if got := r.Header.Get("Envoy-Installation-Proof"); got != fmt.Sprintf("proof-%d", sent) || digestOf(body) != digests[sent-1] {
				t.Errorf("proof is %q for %s", got, body)
			}
			return nil, errors.New("enough")
		})},
	}
	for range 2 {
		_, err := ask(New(o), ToolList)
		outageOf(t, err)
	}
	if sent != 2 || len(digests) != 2 {
		t.Fatalf("%d sent, %d proofs", sent, len(digests))
	}
	broken := errors.New("proof broke near " + token)
	for name, change := range map[string]func(*Options){
		"no source":       func(o *Options) { o.Token = nil },
		"token fails":     func(o *Options) { o.Token = tokenOf("", errors.New("no such file")) },
		"token empty":     func(o *Options) { o.Token = tokenOf("", nil) },
		"token with line": func(o *Options) { o.Token = tokenOf("a\r\nX: "+canary, nil) },
		"proof fails": func(o *Options) {
			o.Proof = func(context.Context, string, string, [32]byte) (string, error) { return "", broken }
		},
		"proof with line": func(o *Options) {
			o.Proof = func(context.Context, string, string, [32]byte) (string, error) { return "a\n" + canary, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			change(&o)
			got, err := ask(New(o), ToolList)
			wantOutage(t, got, err, OutageClientOwn)
			for _, s := range []string{canary, token} {
				if strings.Contains(printed(err), s) {
					t.Errorf("%s", printed(err))
				}
			}
		})
	}
	if sent != 2 {
		t.Errorf("%d sent", sent)
	}
}

func digestOf(body []byte) [32]byte { return sha256.Sum256(body) }

func tokenOf(text string, err error) func(context.Context) (secret.Value, error) {
	return func(context.Context) (secret.Value, error) { return secret.New(text), err }
}
