// The texts of a sign-in and of errors in the languages of a server's pages. Put it beside GamedClient.cs: its
// ConsolePerson and the GamedDialog of Unity then use it. Without this file all texts are English.

using System;
using System.Collections.Generic;

namespace Gamed
{
    public static partial class PlayerTexts
    {
        // Made by clients/texts.py; to change a translation, change gamed/pages/locale
        static readonly Dictionary<string, int> Tags = new Dictionary<string, int>
        {
            { "ar", 0 },
            { "de", 1 },
            { "es", 2 },
            { "fr", 3 },
            { "it", 4 },
            { "ja", 5 },
            { "ko", 6 },
            { "nl", 7 },
            { "pl", 8 },
            { "pt", 9 },
            { "pt-br", 9 },
            { "ru", 10 },
            { "tr", 11 },
            { "uk", 12 },
            { "zh", 13 },
            { "zh-cn", 13 },
            { "zh-hans", 13 },
            { "zh-hant", -1 },
            { "zh-hk", -1 },
            { "zh-mo", -1 },
            { "zh-sg", 13 },
            { "zh-tw", -1 },
        };
        static readonly int[] RightToLeft =
        {
            0,
        };
        static readonly Dictionary<string, string[]> Texts = new Dictionary<string, string[]>
        {
            { "How do you want to sign in?", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Sign in with {provider}", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "The sign-in continues in your browser.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Open this address in your browser to sign in:", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Copy the link", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Type the six letters that the sign-in page shows.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "The code has six letters, like BKT-RVW.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "That is not the code. Attempts left: {count}", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Press Enter to see a code in the browser.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Show me a code", new[] { "أظهر لي رمزًا", "Zeig mir einen Code", "Mostrar un código", "Afficher un code", "Mostrami un codice", "コードを表示する", "코드 보기", "Toon een code", "Pokaż mi kod", "Mostrar um código", "Показать код", "Kod göster", "Показати код", "显示验证码" } },
            { "Tell the owner this number:", new[] { "أخبر المالك بهذا الرقم:", "Nenne dem Besitzer diese Nummer:", "Dile este número al propietario:", "Donne ce numéro au propriétaire :", "Comunica questo numero al proprietario:", "管理者にこの番号を伝えてください：", "서버 소유자에게 이 번호를 알려 주세요:", "Geef dit nummer door aan de eigenaar:", "Podaj właścicielowi ten numer:", "Informe este número ao dono:", "Сообщите владельцу этот номер:", "Sunucu sahibine bu numarayı bildirin:", "Назви власникові цей номер:", "请将此编号告知服主：" } },
            { "Continue", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "Cancel", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "You are not signed in", new[] { "لم تسجّل الدخول", "Du bist nicht angemeldet", "No has iniciado sesión", "La connexion n’a pas abouti", "Non hai effettuato l’accesso", "サインインしていません", "로그인되지 않았어요", "Je bent niet ingelogd", "Nie zalogowano cię", "Você não fez login", "Вы не вошли в аккаунт", "Giriş yapılmadı", "Вхід не виконано", "你尚未登录" } },
            { "This server takes no new players. Ask its owner for an account.", new[] { "لا يقبل هذا الخادم لاعبين جددًا. اطلب حسابًا من مالكه.", "Dieser Server nimmt keine neuen Spieler an. Bitte seinen Besitzer um ein Konto.", "Este servidor no acepta jugadores nuevos. Pídele una cuenta a su propietario.", "Ce serveur n’accepte pas de nouveaux joueurs. Demande un compte à son propriétaire.", "Questo server non accetta nuovi giocatori. Chiedi un account al proprietario.", "このサーバーは新しいプレイヤーを受け付けていません。管理者にアカウントを頼んでください。", "이 서버는 새 플레이어를 받지 않아요. 서버 소유자에게 계정을 요청하세요.", "Deze server neemt geen nieuwe spelers aan. Vraag de eigenaar ervan om een account.", "Ten serwer nie przyjmuje nowych graczy. Poproś jego właściciela o konto.", "Este servidor não aceita novos jogadores. Peça uma conta ao dono.", "Этот сервер не принимает новых игроков. Попросите аккаунт у его владельца.", "Bu sunucu yeni oyuncu kabul etmiyor. Sunucu sahibinden bir hesap isteyin.", "Цей сервер не приймає нових гравців. Попроси акаунт у його власника.", "此服务器不接受新玩家。请向服主申请账号。" } },
            { "Not linked", new[] { "لم يتم الربط", "Nicht verknüpft", "Cuenta no vinculada", "Compte non associé", "Non collegato", "連携されませんでした", "연동되지 않았어요", "Niet gekoppeld", "Nie połączono", "Não vinculado", "Не привязано", "Bağlanmadı", "Не прив’язано", "未绑定" } },
            { "That account belongs to another player of this server.", new[] { "هذا الحساب يخص لاعبًا آخر على هذا الخادم.", "Dieses Konto gehört zu einem anderen Spieler dieses Servers.", "Esa cuenta es de otro jugador de este servidor.", "Ce compte appartient à un autre joueur de ce serveur.", "Quell’account appartiene a un altro giocatore di questo server.", "このアカウントは、このサーバーの別のプレイヤーのものです。", "이 서버의 다른 플레이어가 사용하는 계정이에요.", "Dat account hoort bij een andere speler van deze server.", "To konto należy do innego gracza na tym serwerze.", "Essa conta pertence a outro jogador deste servidor.", "Этот аккаунт принадлежит другому игроку этого сервера.", "O hesap bu sunucudaki başka bir oyuncuya ait.", "Цей акаунт належить іншому гравцеві цього сервера.", "该账号属于此服务器的另一名玩家。" } },
            { "You have an account of that provider linked already. Unlink it first.", new[] { "لديك حساب مربوط لدى هذا المزوّد بالفعل. ألغِ ربطه أولًا.", "Du hast schon ein Konto dieses Anbieters verknüpft. Trenne es zuerst.", "Ya tienes vinculada una cuenta de ese proveedor. Desvincúlala primero.", "Un compte de ce fournisseur est déjà associé. Dissocie-le d’abord.", "Hai già collegato un account di quel provider. Prima scollegalo.", "このプロバイダーのアカウントはすでに連携されています。先に連携を解除してください。", "이 로그인 서비스의 다른 계정이 이미 연동되어 있어요. 먼저 그 연동을 해제하세요.", "Je hebt al een account van die aanbieder gekoppeld. Ontkoppel dat eerst.", "Masz już połączone konto tego dostawcy. Najpierw je odłącz.", "Você já tem uma conta desse provedor vinculada. Primeiro desvincule-a.", "У вас уже привязан аккаунт этого сервиса входа. Сначала отвяжите его.", "Bu sağlayıcıdaki bir hesabınız zaten bağlı. Önce onun bağlantısını kaldırın.", "У тебе вже прив’язано акаунт цього сервісу входу. Спершу відв’яжи його.", "你已绑定该登录平台的一个账号。请先解绑。" } },
            { "You cannot play here", new[] { "لا يمكنك اللعب هنا", "Du kannst hier nicht spielen", "No puedes jugar aquí", "Tu ne peux pas jouer ici", "Qui non puoi giocare", "ここではプレイできません", "여기서 플레이할 수 없어요", "Je kunt hier niet spelen", "Nie możesz tu grać", "Você não pode jogar aqui", "Вы не можете здесь играть", "Burada oynayamazsınız", "Ти не можеш тут грати", "你无法在这里游玩" } },
            { "You are blocked. Ask the owner of this server.", new[] { "أنت محظور. اسأل مالك هذا الخادم.", "Du bist gesperrt. Frag den Besitzer dieses Servers.", "Tu cuenta está bloqueada. Pregunta al propietario de este servidor.", "Ton compte est bloqué. Adresse-toi au propriétaire de ce serveur.", "Il tuo account è bloccato. Chiedi al proprietario di questo server.", "ブロックされています。このサーバーの管理者に問い合わせてください。", "차단됐어요. 이 서버의 소유자에게 문의하세요.", "Je bent geblokkeerd. Vraag het de eigenaar van deze server.", "Twój dostęp jest zablokowany. Zapytaj właściciela tego serwera.", "Sua conta está bloqueada. Fale com o dono deste servidor.", "Вы заблокированы. Обратитесь к владельцу сервера.", "Engellendiniz. Bu sunucunun sahibine danışın.", "Тебе заблоковано. Звернися до власника сервера.", "你已被封禁。请联系服主。" } },
            { "Waiting for the owner", new[] { "بانتظار المالك", "Warten auf den Besitzer", "Esperando al propietario", "En attente du propriétaire", "In attesa del proprietario", "管理者の承認待ち", "서버 소유자를 기다리는 중", "Wachten op de eigenaar", "Oczekiwanie na właściciela", "Aguardando o dono", "Ждём решения владельца", "Sunucu sahibi bekleniyor", "Чекаємо на рішення власника", "等待服主批准" } },
            { "The owner of this server must approve you first. After that, sign in again.", new[] { "يجب أن يوافق عليك مالك هذا الخادم أولًا. بعد ذلك سجّل الدخول مرة أخرى.", "Der Besitzer dieses Servers muss dich zuerst freigeben. Melde dich danach erneut an.", "El propietario de este servidor tiene que aprobar primero tu cuenta. Después, vuelve a iniciar sesión.", "Le propriétaire de ce serveur doit d’abord approuver ton compte. Ensuite, reconnecte-toi.", "Prima il proprietario di questo server deve approvarti. Dopo, accedi di nuovo.", "先にこのサーバーの管理者の承認が必要です。その後、もう一度サインインしてください。", "먼저 이 서버의 소유자가 승인해야 해요. 승인된 뒤 다시 로그인하세요.", "De eigenaar van deze server moet je eerst goedkeuren. Log daarna opnieuw in.", "Właściciel tego serwera musi cię najpierw zatwierdzić. Potem zaloguj się ponownie.", "O dono deste servidor precisa aprovar você primeiro. Depois disso, entre de novo.", "Сначала владелец сервера должен одобрить ваш аккаунт. После этого войдите снова.", "Önce bu sunucunun sahibi sizi onaylamalı. Ardından yeniden giriş yapın.", "Спершу власник сервера має схвалити твій акаунт. Після цього ввійди знову.", "需要先经服主批准。批准后请重新登录。" } },
            { "The sign-in was cancelled at the provider.", new[] { "أُلغي تسجيل الدخول لدى المزوّد.", "Die Anmeldung wurde beim Anbieter abgebrochen.", "El inicio de sesión se canceló en el proveedor.", "La connexion a été annulée chez le fournisseur.", "L’accesso è stato annullato presso il provider.", "プロバイダーでサインインがキャンセルされました。", "로그인 서비스에서 로그인이 취소됐어요.", "Het inloggen is bij de aanbieder geannuleerd.", "Logowanie zostało anulowane u dostawcy.", "O login foi cancelado no provedor.", "Вход отменён на стороне сервиса входа.", "Giriş, sağlayıcıda iptal edildi.", "Вхід скасовано на боці сервісу входу.", "登录在登录平台上被取消。" } },
            { "The sign-in was declined.", new[] { "رُفض تسجيل الدخول.", "Die Anmeldung wurde abgelehnt.", "El inicio de sesión se rechazó.", "La connexion a été refusée.", "L’accesso è stato rifiutato.", "サインインは拒否されました。", "로그인이 거부됐어요.", "Het inloggen is geweigerd.", "Logowanie zostało odrzucone.", "O login foi recusado.", "Вход отклонён.", "Giriş reddedildi.", "Вхід відхилено.", "登录被拒绝。" } },
            { "The provider does not answer", new[] { "المزوّد لا يستجيب", "Der Anbieter antwortet nicht", "El proveedor no responde", "Le fournisseur ne répond pas", "Il provider non risponde", "プロバイダーが応答しません", "로그인 서비스가 응답하지 않아요", "De aanbieder reageert niet", "Dostawca nie odpowiada", "O provedor não responde", "Сервис входа не отвечает", "Sağlayıcı yanıt vermiyor", "Сервіс входу не відповідає", "登录平台没有响应" } },
            { "It cannot be reached right now. Try again in a few minutes.", new[] { "لا يمكن الوصول إليه الآن. حاول مرة أخرى بعد دقائق.", "Er ist gerade nicht zu erreichen. Versuche es in ein paar Minuten noch einmal.", "Ahora mismo no se puede contactar con él. Inténtalo de nuevo en unos minutos.", "Il est injoignable pour le moment. Réessaie dans quelques minutes.", "Al momento non è raggiungibile. Riprova tra qualche minuto.", "今は接続できません。数分後にもう一度お試しください。", "지금은 연결할 수 없어요. 몇 분 후에 다시 시도하세요.", "De aanbieder is nu niet bereikbaar. Probeer het over een paar minuten opnieuw.", "Dostawca jest teraz nieosiągalny. Spróbuj ponownie za kilka minut.", "Não é possível contatá-lo agora. Tente de novo em alguns minutos.", "Сейчас он недоступен. Попробуйте ещё раз через несколько минут.", "Şu anda ulaşılamıyor. Birkaç dakika sonra yeniden deneyin.", "Зараз він недоступний. Спробуй ще раз через кілька хвилин.", "目前无法连接。请几分钟后再试。" } },
            { "The provider's answer was wrong", new[] { "كان ردّ المزوّد خاطئًا", "Die Antwort des Anbieters war falsch", "La respuesta del proveedor no fue correcta", "La réponse du fournisseur est incorrecte", "La risposta del provider non era corretta", "プロバイダーの応答が正しくありませんでした", "로그인 서비스의 응답이 잘못됐어요", "Het antwoord van de aanbieder klopt niet", "Odpowiedź dostawcy była nieprawidłowa", "A resposta do provedor estava errada", "Неверный ответ сервиса входа", "Sağlayıcının yanıtı hatalıydı", "Неправильна відповідь сервісу входу", "登录平台的响应有误" } },
            { "Try again. If it happens again, tell the owner of this server.", new[] { "حاول مرة أخرى. إن تكرر ذلك، فأخبر مالك هذا الخادم.", "Versuche es noch einmal. Passiert es wieder, sag dem Besitzer dieses Servers Bescheid.", "Inténtalo de nuevo. Si vuelve a pasar, avisa al propietario de este servidor.", "Réessaie. Si cela se reproduit, préviens le propriétaire de ce serveur.", "Riprova. Se succede di nuovo, avvisa il proprietario di questo server.", "もう一度お試しください。また起きる場合は、このサーバーの管理者に知らせてください。", "다시 시도하세요. 또 같은 일이 생기면 이 서버의 소유자에게 알려 주세요.", "Probeer het opnieuw. Gebeurt het weer, laat het dan de eigenaar van deze server weten.", "Spróbuj ponownie. Jeśli to się powtórzy, powiadom właściciela tego serwera.", "Tente de novo. Se isso se repetir, avise o dono deste servidor.", "Попробуйте ещё раз. Если это повторится, сообщите владельцу сервера.", "Yeniden deneyin. Tekrar olursa bu sunucunun sahibine haber verin.", "Спробуй ще раз. Якщо це повториться, повідом власника сервера.", "请再试一次。如果再次出现，请告知服主。" } },
            { "This way to sign in is not ready", new[] { "طريقة تسجيل الدخول هذه غير جاهزة", "Dieser Anmeldeweg ist nicht bereit", "Esta forma de iniciar sesión no está lista", "Ce moyen de connexion n’est pas prêt", "Questo metodo di accesso non è pronto", "このサインイン方法は準備できていません", "이 로그인 방법은 준비되지 않았어요", "Deze inlogmethode is niet gereed", "Ta metoda logowania nie jest gotowa", "Este método de login não está pronto", "Этот способ входа не готов", "Bu giriş yöntemi hazır değil", "Цей спосіб входу не готовий", "此登录方式尚未就绪" } },
            { "It is not set up correctly. Please tell the owner of this server.", new[] { "لم تُضبط بشكل صحيح. أخبر مالك هذا الخادم.", "Er ist nicht richtig eingerichtet. Bitte sag dem Besitzer dieses Servers Bescheid.", "No está bien configurada. Por favor, avisa al propietario de este servidor.", "Il n’est pas configuré correctement. Merci de prévenir le propriétaire de ce serveur.", "Non è configurato correttamente. Avvisa il proprietario di questo server.", "正しく設定されていません。このサーバーの管理者に知らせてください。", "올바르게 설정되지 않았어요. 이 서버의 소유자에게 알려 주세요.", "De methode is niet goed ingesteld. Laat het de eigenaar van deze server weten.", "Nie jest poprawnie skonfigurowana. Powiadom właściciela tego serwera.", "Ele não está configurado corretamente. Avise o dono deste servidor.", "Он настроен неправильно. Пожалуйста, сообщите об этом владельцу сервера.", "Doğru ayarlanmamış. Lütfen bu sunucunun sahibine haber verin.", "Його налаштовано неправильно. Будь ласка, повідом про це власника сервера.", "它未正确配置。请告知服主。" } },
            { "The server's clock is wrong", new[] { "ساعة الخادم خاطئة", "Die Uhr des Servers geht falsch", "La hora del servidor es incorrecta", "L’horloge du serveur n’est pas à l’heure", "L’orologio del server è sbagliato", "サーバーの時計がずれています", "서버의 시계가 맞지 않아요", "De klok van de server staat verkeerd", "Zegar serwera wskazuje zły czas", "O relógio do servidor está errado", "На сервере неверное время", "Sunucunun saati yanlış", "На сервері неправильний час", "服务器时钟有误" } },
            { "Nobody can sign in until it is set right. Please tell the owner of this server.", new[] { "لا يمكن لأحد تسجيل الدخول حتى تُضبط. أخبر مالك هذا الخادم.", "Niemand kann sich anmelden, bis sie richtig gestellt ist. Bitte sag dem Besitzer dieses Servers Bescheid.", "Nadie puede iniciar sesión hasta que se corrija. Por favor, avisa al propietario de este servidor.", "Personne ne peut se connecter tant qu’elle n’est pas remise à l’heure. Merci de prévenir le propriétaire de ce serveur.", "Nessuno può accedere finché non viene regolato. Avvisa il proprietario di questo server.", "時計が直るまで、誰もサインインできません。このサーバーの管理者に知らせてください。", "시계를 바로잡을 때까지 아무도 로그인할 수 없어요. 이 서버의 소유자에게 알려 주세요.", "Niemand kan inloggen tot de klok goed is gezet. Laat het de eigenaar van deze server weten.", "Dopóki nie zostanie poprawnie ustawiony, nikt nie może się zalogować. Powiadom właściciela tego serwera.", "Ninguém pode entrar até que ele seja acertado. Avise o dono deste servidor.", "Никто не сможет войти, пока время не исправят. Пожалуйста, сообщите об этом владельцу сервера.", "Saat düzeltilene kadar kimse giriş yapamaz. Lütfen bu sunucunun sahibine haber verin.", "Ніхто не зможе ввійти, доки час не виправлять. Будь ласка, повідом про це власника сервера.", "在时钟校正之前，任何人都无法登录。请告知服主。" } },
            { "This sign-in has expired", new[] { "انتهت مهلة تسجيل الدخول هذا", "Diese Anmeldung ist abgelaufen", "Este inicio de sesión caducó", "Cette connexion a expiré", "Questo accesso è scaduto", "このサインインは期限切れです", "이 로그인은 만료됐어요", "Deze inlogpoging is verlopen", "To logowanie wygasło", "Este login expirou", "Время на вход истекло", "Bu girişin süresi doldu", "Час на вхід вичерпано", "此次登录已过期" } },
            { "It took too long. Try again.", new[] { "استغرق وقتًا طويلًا. حاول مرة أخرى.", "Es hat zu lange gedauert. Versuche es noch einmal.", "Tardó demasiado. Inténtalo de nuevo.", "Cela a pris trop de temps. Réessaie.", "Ci è voluto troppo tempo. Riprova.", "時間がかかりすぎました。もう一度お試しください。", "시간이 너무 오래 걸렸어요. 다시 시도하세요.", "Het duurde te lang. Probeer het opnieuw.", "Trwało to zbyt długo. Spróbuj ponownie.", "Demorou demais. Tente de novo.", "Прошло слишком много времени. Попробуйте ещё раз.", "Çok uzun sürdü. Yeniden deneyin.", "Минуло забагато часу. Спробуй ще раз.", "耗时过长。请再试一次。" } },
            { "The server was interrupted", new[] { "انقطع عمل الخادم", "Der Server wurde unterbrochen", "El servidor sufrió una interrupción", "Le serveur a été interrompu", "Il server è stato interrotto", "サーバーが中断しました", "서버가 중단됐어요", "De server werd onderbroken", "Praca serwera została przerwana", "O servidor foi interrompido", "Сервер прервал работу", "Sunucu kesintiye uğradı", "Сервер перервав роботу", "服务器曾中断" } },
            { "It is back now. Try again.", new[] { "عاد الآن. حاول مرة أخرى.", "Er ist wieder da. Versuche es noch einmal.", "Ya vuelve a funcionar. Inténtalo de nuevo.", "Il fonctionne de nouveau. Réessaie.", "Ora è di nuovo attivo. Riprova.", "復旧しました。もう一度お試しください。", "이제 다시 작동해요. 다시 시도하세요.", "De server is er weer. Probeer het opnieuw.", "Serwer znów działa. Spróbuj ponownie.", "Ele já voltou. Tente de novo.", "Он снова работает. Попробуйте ещё раз.", "Sunucu yeniden çalışıyor. Yeniden deneyin.", "Він знову працює. Спробуй ще раз.", "服务器现已恢复。请再试一次。" } },
            { "The sign-in was cancelled.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "This sign-in did not work. Try again in a moment.", new[] { "لم ينجح تسجيل الدخول هذا. حاول مرة أخرى بعد لحظة.", "Diese Anmeldung hat nicht geklappt. Versuche es gleich noch einmal.", "Este inicio de sesión no funcionó. Inténtalo de nuevo en un momento.", "Cette connexion n’a pas fonctionné. Réessaie dans un instant.", "Questo accesso non è riuscito. Riprova tra un momento.", "サインインできませんでした。少ししてからもう一度お試しください。", "로그인하지 못했어요. 잠시 후 다시 시도하세요.", "Het inloggen is niet gelukt. Probeer het zo meteen opnieuw.", "To logowanie się nie powiodło. Spróbuj ponownie za chwilę.", "Este login não funcionou. Tente de novo em instantes.", "Войти не удалось. Попробуйте ещё раз чуть позже.", "Bu giriş başarısız oldu. Birazdan yeniden deneyin.", "Увійти не вдалося. Спробуй ще раз трохи згодом.", "此次登录未成功。请稍后再试。" } },
            { "You were signed out in the meantime, or the password was changed. Sign in again.", new[] { "سُجّل خروجك في هذه الأثناء، أو تغيّرت كلمة المرور. سجّل الدخول مرة أخرى.", "Du wurdest inzwischen abgemeldet, oder das Passwort wurde geändert. Melde dich erneut an.", "Mientras tanto se cerró tu sesión o se cambió la contraseña. Vuelve a iniciar sesión.", "Entre-temps, ta session a été fermée ou le mot de passe a été modifié. Reconnecte-toi.", "Nel frattempo la tua sessione è terminata oppure la password è stata cambiata. Accedi di nuovo.", "その間にサインアウトされたか、パスワードが変更されました。もう一度サインインしてください。", "그사이에 로그아웃됐거나 비밀번호가 변경됐어요. 다시 로그인하세요.", "Je bent intussen uitgelogd, of het wachtwoord is gewijzigd. Log opnieuw in.", "W międzyczasie wylogowano cię albo zmieniono hasło. Zaloguj się ponownie.", "Nesse meio-tempo, sua sessão foi encerrada ou a senha foi alterada. Entre de novo.", "За это время был выполнен выход из аккаунта или изменён пароль. Войдите снова.", "Bu arada oturumunuz kapatıldı ya da şifre değiştirildi. Yeniden giriş yapın.", "Тим часом було виконано вихід з акаунта або змінено пароль. Увійди знову.", "在此期间你已被登出，或密码已更改。请重新登录。" } },
            { "The server has much to do at the moment. Try again in a minute.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "There is no server for this game at this address. Check the address.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "This game cannot store anything on this device. Free some space, then try again.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "The server does not answer. Check the connection, or try again later.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "The connection to this server is not safe: its certificate is not valid. Tell the owner of this server.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "This game is running already, with the same saves.", new[] { "", "", "", "", "", "", "", "", "", "", "", "", "", "" } },
            { "The server cannot reach its data. Please tell its owner, and try again later.", new[] { "لا يستطيع الخادم الوصول إلى بياناته. أخبر مالكه، ثم حاول مرة أخرى لاحقًا.", "Der Server erreicht seine Daten nicht. Bitte sag seinem Besitzer Bescheid und versuche es später noch einmal.", "El servidor no puede acceder a sus datos. Por favor, avisa a su propietario e inténtalo de nuevo más tarde.", "Le serveur n’a pas accès à ses données. Merci de prévenir son propriétaire et de réessayer plus tard.", "Il server non riesce a raggiungere i suoi dati. Avvisa il proprietario e riprova più tardi.", "サーバーがデータに接続できません。管理者に知らせて、あとでもう一度お試しください。", "서버가 데이터에 접근할 수 없어요. 서버 소유자에게 알리고 나중에 다시 시도하세요.", "De server kan niet bij zijn gegevens. Laat het de eigenaar weten en probeer het later opnieuw.", "Serwer nie ma dostępu do swoich danych. Powiadom jego właściciela i spróbuj ponownie później.", "O servidor não consegue acessar os dados dele. Avise o dono e tente de novo mais tarde.", "Сервер не может получить доступ к своим данным. Пожалуйста, сообщите об этом его владельцу и попробуйте ещё раз позже.", "Sunucu verilerine ulaşamıyor. Lütfen sunucu sahibine haber verin ve daha sonra yeniden deneyin.", "Сервер не може отримати доступ до своїх даних. Будь ласка, повідом про це його власника та спробуй ще раз пізніше.", "服务器无法访问其数据。请告知服主，并稍后再试。" } },
            { "Nothing more can be stored. Please tell the owner of this server.", new[] { "لا يمكن حفظ المزيد. أخبر مالك هذا الخادم.", "Mehr kann nicht gespeichert werden. Bitte sag dem Besitzer dieses Servers Bescheid.", "No se puede guardar nada más. Por favor, avisa al propietario de este servidor.", "Plus rien ne peut être enregistré. Merci de prévenir le propriétaire de ce serveur.", "Non c’è più spazio per salvare altro. Avvisa il proprietario di questo server.", "これ以上保存できません。このサーバーの管理者に知らせてください。", "더 이상 저장할 수 없어요. 이 서버의 소유자에게 알려 주세요.", "Er kan niets meer worden opgeslagen. Laat het de eigenaar van deze server weten.", "Nie można zapisać nic więcej. Powiadom właściciela tego serwera.", "Não é possível armazenar mais nada. Avise o dono deste servidor.", "Больше ничего нельзя сохранить. Пожалуйста, сообщите об этом владельцу сервера.", "Daha fazla veri saklanamıyor. Lütfen bu sunucunun sahibine haber verin.", "Більше нічого не можна зберегти. Будь ласка, повідом про це власника сервера.", "无法再存储更多内容。请告知服主。" } },
            { "The server made a mistake. If it happens again, tell the owner of this server.", new[] { "أخطأ الخادم. إن تكرر ذلك، فأخبر مالك هذا الخادم.", "Der Server hat einen Fehler gemacht. Passiert es wieder, sag dem Besitzer dieses Servers Bescheid.", "El servidor cometió un error. Si vuelve a pasar, avisa al propietario de este servidor.", "Le serveur a rencontré une erreur. Si cela se reproduit, préviens le propriétaire de ce serveur.", "Il server ha commesso un errore. Se succede di nuovo, avvisa il proprietario di questo server.", "サーバーでエラーが起きました。また起きる場合は、このサーバーの管理者に知らせてください。", "서버에서 오류가 발생했어요. 또 같은 일이 생기면 이 서버의 소유자에게 알려 주세요.", "De server heeft een fout gemaakt. Gebeurt het weer, laat het dan de eigenaar van deze server weten.", "Serwer popełnił błąd. Jeśli to się powtórzy, powiadom właściciela tego serwera.", "O servidor cometeu um erro. Se isso se repetir, avise o dono deste servidor.", "На сервере произошла ошибка. Если это повторится, сообщите владельцу сервера.", "Sunucu bir hata yaptı. Tekrar olursa bu sunucunun sahibine haber verin.", "На сервері сталася помилка. Якщо це повториться, повідом власника сервера.", "服务器出错了。如果再次出现，请告知服主。" } },
        };
        static readonly Dictionary<string, string[]> Problems = new Dictionary<string, string[]>
        {
            { "registration_closed", new[] { "You are not signed in", "This server takes no new players. Ask its owner for an account." } },
            { "identity_in_use", new[] { "Not linked", "That account belongs to another player of this server." } },
            { "provider_already_linked", new[] { "Not linked", "You have an account of that provider linked already. Unlink it first." } },
            { "player_blocked", new[] { "You cannot play here", "You are blocked. Ask the owner of this server." } },
            { "player_pending", new[] { "Waiting for the owner", "The owner of this server must approve you first. After that, sign in again." } },
            { "provider_denied", new[] { "You are not signed in", "The sign-in was cancelled at the provider." } },
            { "login_denied", new[] { "You are not signed in", "The sign-in was declined." } },
            { "provider_unavailable", new[] { "The provider does not answer", "It cannot be reached right now. Try again in a few minutes." } },
            { "provider_error", new[] { "The provider's answer was wrong", "Try again. If it happens again, tell the owner of this server." } },
            { "provider_misconfigured", new[] { "This way to sign in is not ready", "It is not set up correctly. Please tell the owner of this server." } },
            { "server_clock_skew", new[] { "The server's clock is wrong", "Nobody can sign in until it is set right. Please tell the owner of this server." } },
            { "login_expired", new[] { "This sign-in has expired", "It took too long. Try again." } },
            { "login_interrupted", new[] { "The server was interrupted", "It is back now. Try again." } },
            { "login_cancelled", new[] { "The sign-in was cancelled." } },
            { "proof_attempts_exceeded", new[] { "You are not signed in", "This sign-in did not work. Try again in a moment." } },
            { "session_revoked", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "signed_out", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "token_missing", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "token_expired", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "token_invalid", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "refresh_expired", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "refresh_reused", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "refresh_invalid", new[] { "You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again." } },
            { "busy", new[] { "The server has much to do at the moment. Try again in a minute." } },
            { "shutting_down", new[] { "The server has much to do at the moment. Try again in a minute." } },
            { "unhealthy", new[] { "The server has much to do at the moment. Try again in a minute." } },
            { "rate_limited", new[] { "The server has much to do at the moment. Try again in a minute." } },
            { "not_gamed", new[] { "There is no server for this game at this address. Check the address." } },
            { "untrusted_address", new[] { "There is no server for this game at this address. Check the address." } },
            { "local_disk", new[] { "This game cannot store anything on this device. Free some space, then try again." } },
            { "disk_full", new[] { "This game cannot store anything on this device. Free some space, then try again." } },
            { "unreachable", new[] { "The server does not answer. Check the connection, or try again later." } },
            { "untrusted_certificate", new[] { "The connection to this server is not safe: its certificate is not valid. Tell the owner of this server." } },
            { "in_use", new[] { "This game is running already, with the same saves." } },
            { "store_unavailable", new[] { "The server cannot reach its data. Please tell its owner, and try again later." } },
            { "storage_full", new[] { "Nothing more can be stored. Please tell the owner of this server." } },
            { "internal_error", new[] { "The server made a mistake. If it happens again, tell the owner of this server." } },
        };
        // End of what clients/texts.py made

        static partial void Find(string tag, ref int language)
        {
            // from the closest tag to the most general (RFC 4647, 3.4)
            for (string rest = tag.ToLowerInvariant(); rest != "";
                rest = rest.Substring(0, Math.Max(0, rest.LastIndexOf('-'))))
                if (Tags.TryGetValue(rest, out language))
                    return;
            language = -1;
        }

        static partial void Turn(int language, ref bool rightToLeft)
        {
            rightToLeft = Array.IndexOf(RightToLeft, language) >= 0;
        }

        static partial void Translate(int language, string english, ref string found)
        {
            string[] translations;
            if (language >= 0 && Texts.TryGetValue(english, out translations))
                found = translations[language];
        }

        static partial void Lines(string code, ref string[] lines)
        {
            Problems.TryGetValue(code, out lines);
        }
    }
}
