// A receiver of webhooks in Java 17 or newer, without a library.
// Start it with: WEBHOOK_SECRET=whsec_... java Receiver.java

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.HexFormat;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import static java.nio.charset.StandardCharsets.UTF_8;

public class Receiver {
    static final long TOLERANCE = 300; // seconds

    /** Check webhook-signature (Standard Webhooks); throw if the request must be refused. */
    static void verify(String secret, Headers headers, byte[] body) throws GeneralSecurityException {
        byte[] key = Base64.getDecoder().decode(known(secret).substring("whsec_".length()));
        String timestamp = header(headers, "webhook-timestamp");
        String signed = header(headers, "webhook-id") + "." + timestamp + ".";
        String expected = "v1," + Base64.getEncoder().encodeToString(sign(key, signed.getBytes(UTF_8), body));
        boolean found = false;
        // During a rotation the header has one value for each secret. MessageDigest.isEqual runs in constant time.
        for (String value : header(headers, "webhook-signature").split(" ")) {
            found |= MessageDigest.isEqual(value.getBytes(UTF_8), expected.getBytes(UTF_8));
        }
        if (!found) throw new SecurityException("wrong signature");
        long age = Instant.now().getEpochSecond() - Long.parseLong(timestamp);
        if (Math.abs(age) > TOLERANCE) throw new SecurityException("the request is too old");
    }

    /** Check X-Service-Signature, which does not cover the time; throw if the request must be refused. */
    static void verifyServiceSignature(String secret, Headers headers, byte[] body) throws GeneralSecurityException {
        String expected = HexFormat.of().formatHex(sign(known(secret).getBytes(UTF_8), body));
        byte[] given = header(headers, "X-Service-Signature").getBytes(UTF_8);
        if (!MessageDigest.isEqual(given, expected.getBytes(UTF_8))) throw new SecurityException("wrong signature");
    }

    /** Return the secret; throw if it is missing, because anybody can sign with an empty one. */
    static String known(String secret) {
        if (secret != null && secret.startsWith("whsec_")) return secret;
        throw new SecurityException("the secret must begin with whsec_");
    }

    static byte[] sign(byte[] key, byte[]... parts) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        for (byte[] part : parts) mac.update(part);
        return mac.doFinal();
    }

    static String header(Headers headers, String name) {
        return headers.containsKey(name) ? headers.getFirst(name) : "";
    }

    // --- a server that uses one of the two ---

    static void receive(HttpExchange exchange) throws IOException {
        byte[] body = exchange.getRequestBody().readAllBytes();
        String secret = System.getenv("WEBHOOK_SECRET");
        int status = 204;
        try {
            if (exchange.getRequestURI().getPath().equals("/service-signature")) {
                verifyServiceSignature(secret, exchange.getRequestHeaders(), body);
            } else {
                verify(secret, exchange.getRequestHeaders(), body);
            }
            // Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
            System.out.println("accepted " + exchange.getRequestHeaders().getFirst("webhook-id"));
        } catch (SecurityException | GeneralSecurityException refused) {
            status = 401;
        }
        exchange.sendResponseHeaders(status, -1);
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "8080"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Receiver::receive);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }
}
