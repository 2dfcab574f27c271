import java.util.Set;
import java.util.function.Predicate;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.AuthApi;
import org.openapitools.client.api.DeliveriesApi;
import org.openapitools.client.api.EventsApi;
import org.openapitools.client.api.KeysApi;
import org.openapitools.client.api.ReplaysApi;
import org.openapitools.client.api.WebhooksApi;
import org.openapitools.client.model.DeliveryAnswer;
import org.openapitools.client.model.Event;
import org.openapitools.client.model.EventsRequest;
import org.openapitools.client.model.KeyRequest;
import org.openapitools.client.model.LoginRequest;
import org.openapitools.client.model.ReplayAnswer;
import org.openapitools.client.model.ReplayRequest;
import org.openapitools.client.model.RotationRequest;
import org.openapitools.client.model.WebhookPatch;
import org.openapitools.client.model.WebhookRequest;

/** The story of generated clients; tests/integration/api/test_generated_clients.py says what it does. */
public final class Story {
  interface Question<T> {
    T ask() throws Exception;
  }

  static <T> T eventually(String what, Question<T> question, Predicate<T> right) throws Exception {
    long deadline = System.nanoTime() + 120_000_000_000L;
    T answer = question.ask();
    while (!right.test(answer)) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException(what + ": " + answer);
      }
      Thread.sleep(100);
      answer = question.ask();
    }
    return answer;
  }

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0], email = arguments[1], password = arguments[2], receiver = arguments[3];
    ApiClient session = new ApiClient().setBasePath(url);
    ApiClient key = new ApiClient().setBasePath(url);
    session.setBearerToken(new AuthApi(session).login(new LoginRequest().email(email).password(password)).getToken());
    key.setApiKey(new KeysApi(session).createKey("billing", new KeyRequest().name("java"), null).getKey());

    WebhooksApi webhooks = new WebhooksApi(session);
    WebhookRequest wanted = new WebhookRequest().url(receiver).events(Set.of("delivered"));
    var made = webhooks.createWebhook(wanted, "billing", null);
    webhooks.updateWebhook(made.getId(), new WebhookPatch().description("generated"), "billing", null);

    DeliveriesApi deliveries = new DeliveriesApi(key);
    Event event = new Event().type("delivered").messageId("m-java");
    System.out.println("accepted " + new EventsApi(key).sendEvents(new EventsRequest(event), null).getAccepted());
    DeliveryAnswer found =
        eventually("delivered", () -> search(deliveries), one -> one.getStatus() == DeliveryAnswer.StatusEnum.DELIVERED);
    System.out.println("status " + deliveries.getDelivery(found.getId(), null).getAttempts().get(0).getStatusCode());
    deliveries.retryDelivery(found.getId(), null);
    eventually("retried", () -> search(deliveries), one -> one.getAttempts().size() == 2);

    String secret = webhooks.rotateWebhookSecret(made.getId(), "billing", null, new RotationRequest()).getSecret();
    System.out.println("rotated " + !secret.equals(made.getSecret()));
    ReplaysApi replays = new ReplaysApi(session);
    ReplayRequest range = new ReplayRequest().since("2020-01-01T00:00:00Z").state(ReplayRequest.StateEnum.DELIVERED);
    String replay = replays.beginReplay(made.getId(), range, null).getId();
    ReplayAnswer ended =
        eventually(
            "replayed",
            () -> replays.getReplay(made.getId(), replay, null),
            one -> one.getStatus() == ReplayAnswer.StatusEnum.COMPLETED);
    System.out.println("replayed " + ended.getDone());
    eventually("sent", () -> search(deliveries), one -> one.getAttempts().size() == 3);
    webhooks.deleteWebhook(made.getId(), "billing");
    System.out.println("deleted");
  }

  private static DeliveryAnswer search(DeliveriesApi deliveries) throws Exception {
    return deliveries
        .searchDeliveries("m-java", null, null, null, null, null, null, null, null, null, null)
        .getData()
        .get(0);
  }
}
