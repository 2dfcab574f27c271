// The story of generated clients; tests/integration/api/test_generated_clients.py says what it does.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"example.com/client/api"
)

var background = context.Background()

// must returns an answer without an error.
func must[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

// right returns the body of a successful answer.
func right[T any](body *T, status int, text []byte) T {
	if body == nil {
		panic(fmt.Sprintf("%d: %s", status, text))
	}
	return *body
}

// eventually asks until the answer is right.
func eventually[T any](ask func() T, holds func(T) bool) T {
	for deadline := time.Now().Add(120 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		answer := ask()
		if holds(answer) {
			return answer
		}
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("%+v", answer))
		}
	}
}

// with returns a client that sends a header.
func with(url, name, value string) *api.ClientWithResponses {
	editor := func(_ context.Context, request *http.Request) error {
		if name != "" {
			request.Header.Set(name, value)
		}
		return nil
	}
	return must(api.NewClientWithResponses(url, api.WithRequestEditorFn(editor)))
}

func main() {
	url, email, password, receiver := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	project := "billing"
	in := must(with(url, "", "").LoginWithResponse(background, api.LoginRequest{Email: email, Password: &password}))
	session := with(url, "Authorization", "Bearer "+right(in.JSON200, in.StatusCode(), in.Body).Token)
	newKey := must(session.CreateKeyWithResponse(background, project, nil, api.KeyRequest{Name: "go"}))
	key := with(url, "X-Service-Key", right(newKey.JSON201, newKey.StatusCode(), newKey.Body).Key)

	wanted := api.WebhookRequest{Url: &receiver, Events: []string{"delivered"}}
	new := must(session.CreateWebhookWithResponse(background, &api.CreateWebhookParams{Project: &project}, wanted))
	made := right(new.JSON201, new.StatusCode(), new.Body)
	description := "generated"
	patch := api.WebhookPatch{Description: &description}
	changed := must(session.UpdateWebhookWithApplicationMergePatchPlusJSONBodyWithResponse(
		background, made.Id, &api.UpdateWebhookParams{Project: &project}, patch))
	right(changed.JSON200, changed.StatusCode(), changed.Body)

	var body api.EventsRequest
	message := "m-go"
	if err := body.FromEvent(api.Event{Type: "delivered", MessageId: &message}); err != nil {
		panic(err)
	}
	sent := must(key.SendEventsWithResponse(background, nil, body))
	fmt.Println("accepted", right(sent.JSON202, sent.StatusCode(), sent.Body).Accepted)
	search := func() api.DeliveryAnswer {
		page := must(key.SearchDeliveriesWithResponse(background, &api.SearchDeliveriesParams{MessageId: &message}))
		return right(page.JSON200, page.StatusCode(), page.Body).Data[0]
	}
	found := eventually(search, func(one api.DeliveryAnswer) bool { return one.Status == "delivered" })
	shown := must(key.GetDeliveryWithResponse(background, found.Id, nil))
	fmt.Println("status", right(shown.JSON200, shown.StatusCode(), shown.Body).Attempts[0].StatusCode)
	again := must(key.RetryDeliveryWithResponse(background, found.Id, nil))
	right(again.JSON202, again.StatusCode(), again.Body)
	eventually(search, func(one api.DeliveryAnswer) bool { return len(one.Attempts) == 2 })

	rotated := must(session.RotateWebhookSecretWithResponse(
		background, made.Id, &api.RotateWebhookSecretParams{Project: &project}, api.RotationRequest{}))
	fmt.Println("rotated", right(rotated.JSON200, rotated.StatusCode(), rotated.Body).Secret != made.Secret)
	state := api.ReplayRequestState("delivered")
	span := api.ReplayRequest{Since: "2020-01-01T00:00:00Z", State: &state}
	begun := must(session.BeginReplayWithResponse(background, made.Id, nil, span))
	replay := right(begun.JSON202, begun.StatusCode(), begun.Body)
	ended := eventually(func() api.ReplayAnswer {
		now := must(session.GetReplayWithResponse(background, made.Id, *replay.Id, nil))
		return right(now.JSON200, now.StatusCode(), now.Body)
	}, func(one api.ReplayAnswer) bool { return one.Status == "completed" })
	fmt.Println("replayed", ended.Done)
	eventually(search, func(one api.DeliveryAnswer) bool { return len(one.Attempts) == 3 })
	gone := must(session.DeleteWebhookWithResponse(background, made.Id, &api.DeleteWebhookParams{Project: &project}))
	if gone.StatusCode() != 204 {
		panic(gone.Status())
	}
	fmt.Println("deleted")
}
