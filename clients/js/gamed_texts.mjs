/**
 * The texts of gamed_dialog.mjs and of errors, in the languages of a server's pages, for dialogs of a game as well.
 *
 *     const texts = new Texts(client.locale)
 *     show(texts.text("Sign in with {provider}", { provider: label }), texts.problem(error))
 *
 * A text is called by its English form, and stays English where it has no translation.
 *
 * @module
 */

import { localeTag, systemLocale } from "./gamed.mjs"

/** @import { GamedError } from "./gamed.mjs" */

// Made by clients/texts.py; to change a translation, change gamed/pages/locale
/** @type {Record<string, number>} */
const TAGS = {
  "ar": 0,
  "de": 1,
  "es": 2,
  "fr": 3,
  "it": 4,
  "ja": 5,
  "ko": 6,
  "nl": 7,
  "pl": 8,
  "pt": 9,
  "pt-br": 9,
  "ru": 10,
  "tr": 11,
  "uk": 12,
  "zh": 13,
  "zh-cn": 13,
  "zh-hans": 13,
  "zh-hant": -1,
  "zh-hk": -1,
  "zh-mo": -1,
  "zh-sg": 13,
  "zh-tw": -1,
}
const NAMES = [
  "ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt-BR", "ru", "tr", "uk", "zh-Hans",
]
const RIGHT_TO_LEFT = [
  0,
]
/** @type {Record<string, string[]>} */
const TEXTS = {
  "Sign in to play": ["سجّل الدخول لتلعب", "Melde dich an, um zu spielen", "Inicia sesión para jugar", "Connecte-toi pour jouer", "Accedi per giocare", "サインインしてプレイ", "플레이하려면 로그인하세요", "Log in om te spelen", "Zaloguj się, aby grać", "Entre para jogar", "Войдите, чтобы играть", "Oynamak için giriş yapın", "Увійди, щоб грати", "登录后即可游玩"],
  "Sign in with {provider}": ["تسجيل الدخول باستخدام {provider}", "Mit {provider} anmelden", "Iniciar sesión con {provider}", "Se connecter avec {provider}", "Accedi con {provider}", "{provider}でサインイン", "{provider} 계정으로 로그인", "Inloggen met {provider}", "Zaloguj się przez {provider}", "Entrar com {provider}", "Войти через {provider}", "{provider} ile giriş yap", "Увійти через {provider}", "使用 {provider} 登录"],
  "Sign in": ["تسجيل الدخول", "Anmelden", "Iniciar sesión", "Se connecter", "Accedi", "サインイン", "로그인", "Inloggen", "Zaloguj się", "Entrar", "Войти", "Giriş yap", "Увійти", "登录"],
  "The sign-in continues in another tab.": ["يستمر تسجيل الدخول في علامة تبويب أخرى.", "Die Anmeldung geht in einem anderen Tab weiter.", "El inicio de sesión continúa en otra pestaña.", "La connexion continue dans un autre onglet.", "L’accesso continua in un’altra scheda.", "サインインは別のタブで続きます。", "로그인은 다른 탭에서 이어져요.", "Het inloggen gaat verder in een ander tabblad.", "Logowanie jest kontynuowane na innej karcie.", "O login continua em outra aba.", "Вход продолжается в другой вкладке.", "Giriş, başka bir sekmede devam ediyor.", "Вхід триває в іншій вкладці.", "登录会在另一个标签页中继续。"],
  "To sign in with a phone, scan this:": ["لتسجيل الدخول بالهاتف، امسح هذا:", "Scanne das hier, um dich mit dem Handy anzumelden:", "Para iniciar sesión con un teléfono, escanea esto:", "Pour te connecter avec un téléphone, scanne ceci :", "Per accedere con un telefono, scansiona questo codice QR:", "スマートフォンでサインインするには、これを読み取ってください：", "휴대폰으로 로그인하려면 이 QR 코드를 스캔하세요:", "Scan dit om in te loggen met een telefoon:", "Aby zalogować się telefonem, zeskanuj ten kod QR:", "Para entrar com um celular, escaneie este QR code:", "Чтобы войти с телефона, отсканируйте этот QR-код:", "Telefonla giriş yapmak için bu QR kodunu tarayın:", "Щоб увійти з телефона, відскануй цей QR-код:", "要用手机登录，请扫描："],
  "The link to sign in, as a QR code": ["رابط تسجيل الدخول كرمز QR", "Der Link zum Anmelden, als QR-Code", "El enlace para iniciar sesión, como código QR", "Le lien de connexion, sous forme de code QR", "Il link per accedere, come codice QR", "サインイン用リンクのQRコード", "로그인 링크가 담긴 QR 코드", "De link om in te loggen, als QR-code", "Link do logowania jako kod QR", "O link para entrar, como QR code", "Ссылка для входа в виде QR-кода", "QR kodu olarak giriş bağlantısı", "Посилання для входу у вигляді QR-коду", "登录链接的二维码"],
  "Type the six letters that the sign-in page shows.": ["اكتب الحروف الستة التي تعرضها صفحة تسجيل الدخول.", "Gib die sechs Buchstaben ein, die auf der Anmeldeseite stehen.", "Escribe las seis letras que muestra la página de inicio de sesión.", "Saisis les six lettres affichées sur la page de connexion.", "Inserisci le sei lettere mostrate nella pagina di accesso.", "サインインページに表示された6文字の英字を入力してください。", "로그인 페이지에 표시된 영문자 6자를 입력하세요.", "Typ de zes letters die op de inlogpagina staan.", "Wpisz sześć liter widocznych na stronie logowania.", "Digite as seis letras mostradas na página de login.", "Введите шесть букв, которые показывает страница входа.", "Giriş sayfasında gösterilen altı harfi yazın.", "Введи шість літер, які показує сторінка входу.", "请输入登录页面上显示的六个字母。"],
  "The code has six letters, like BKT-RVW.": ["يتكوّن الرمز من ستة حروف، مثل BKT-RVW.", "Der Code hat sechs Buchstaben, zum Beispiel BKT-RVW.", "El código tiene seis letras, como BKT-RVW.", "Le code a six lettres, comme BKT-RVW.", "Il codice ha sei lettere, come BKT-RVW.", "コードはBKT-RVWのような6文字の英字です。", "코드는 BKT-RVW처럼 영문자 6자예요.", "De code heeft zes letters, bijvoorbeeld BKT-RVW.", "Kod ma sześć liter, na przykład BKT-RVW.", "O código tem seis letras, como BKT-RVW.", "Код состоит из шести букв, например BKT-RVW.", "Kod altı harften oluşur, örneğin BKT-RVW.", "Код складається із шести літер, наприклад BKT-RVW.", "验证码由六个字母组成，例如 BKT-RVW。"],
  "That is not the code. Attempts left: {count}": ["هذا ليس الرمز. المحاولات المتبقية: {count}", "Das ist nicht der Code. Verbleibende Versuche: {count}", "Ese no es el código. Intentos restantes: {count}", "Ce n’est pas le bon code. Tentatives restantes : {count}", "Il codice non è questo. Tentativi rimasti: {count}", "コードが違います。残りの試行回数：{count}", "코드가 맞지 않아요. 남은 시도 횟수: {count}", "Dat is niet de code. Resterende pogingen: {count}", "To nie ten kod. Pozostałe próby: {count}", "O código não é esse. Tentativas restantes: {count}", "Это не тот код. Осталось попыток: {count}", "Kod bu değil. Kalan deneme: {count}", "Це не той код. Залишилося спроб: {count}", "验证码不正确。剩余次数：{count}"],
  "Show me a code": ["أظهر لي رمزًا", "Zeig mir einen Code", "Mostrar un código", "Afficher un code", "Mostrami un codice", "コードを表示する", "코드 보기", "Toon een code", "Pokaż mi kod", "Mostrar um código", "Показать код", "Kod göster", "Показати код", "显示验证码"],
  "Tell the owner this number:": ["أخبر المالك بهذا الرقم:", "Nenne dem Besitzer diese Nummer:", "Dile este número al propietario:", "Donne ce numéro au propriétaire :", "Comunica questo numero al proprietario:", "管理者にこの番号を伝えてください：", "서버 소유자에게 이 번호를 알려 주세요:", "Geef dit nummer door aan de eigenaar:", "Podaj właścicielowi ten numer:", "Informe este número ao dono:", "Сообщите владельцу этот номер:", "Sunucu sahibine bu numarayı bildirin:", "Назви власникові цей номер:", "请将此编号告知服主："],
  "Something went wrong in this game.": ["حدث خطأ في هذه اللعبة.", "In diesem Spiel ist etwas schiefgegangen.", "Algo falló en este juego.", "Un problème est survenu dans ce jeu.", "Qualcosa è andato storto in questo gioco.", "このゲームで問題が起きました。", "이 게임에서 문제가 생겼어요.", "Er is iets misgegaan in deze game.", "W tej grze coś poszło nie tak.", "Algo deu errado neste jogo.", "В этой игре что-то пошло не так.", "Bu oyunda bir şeyler ters gitti.", "У цій грі щось пішло не так.", "此游戏出了点问题。"],
  "Continue": ["متابعة", "Weiter", "Continuar", "Continuer", "Continua", "続ける", "계속", "Doorgaan", "Kontynuuj", "Continuar", "Продолжить", "Devam et", "Продовжити", "继续"],
  "Cancel": ["إلغاء", "Abbrechen", "Cancelar", "Annuler", "Annulla", "キャンセル", "취소", "Annuleren", "Anuluj", "Cancelar", "Отмена", "İptal", "Скасувати", "取消"],
  "Close": ["إغلاق", "Schließen", "Cerrar", "Fermer", "Chiudi", "閉じる", "닫기", "Sluiten", "Zamknij", "Fechar", "Закрыть", "Kapat", "Закрити", "关闭"],
  "You are not signed in": ["لم تسجّل الدخول", "Du bist nicht angemeldet", "No has iniciado sesión", "La connexion n’a pas abouti", "Non hai effettuato l’accesso", "サインインしていません", "로그인되지 않았어요", "Je bent niet ingelogd", "Nie zalogowano cię", "Você não fez login", "Вы не вошли в аккаунт", "Giriş yapılmadı", "Вхід не виконано", "你尚未登录"],
  "This server takes no new accounts. Ask its owner for one.": ["لا يقبل هذا الخادم حسابات جديدة. اطلب حسابًا من مالكه.", "Dieser Server nimmt keine neuen Konten an. Bitte seinen Besitzer um eines.", "Este servidor no acepta cuentas nuevas. Pídele una a su propietario.", "Ce serveur n’accepte pas de nouveaux comptes. Demandes-en un à son propriétaire.", "Questo server non accetta nuovi account. Chiedine uno al proprietario.", "このサーバーは新しいアカウントを受け付けていません。管理者に頼んでください。", "이 서버는 새 계정을 받지 않아요. 서버 소유자에게 계정을 요청하세요.", "Deze server neemt geen nieuwe accounts aan. Vraag de eigenaar ervan om een account.", "Ten serwer nie przyjmuje nowych kont. Poproś jego właściciela o konto.", "Este servidor não aceita novas contas. Peça uma ao dono.", "Этот сервер не принимает новые аккаунты. Попросите аккаунт у его владельца.", "Bu sunucu yeni hesap kabul etmiyor. Sunucu sahibinden bir hesap isteyin.", "Цей сервер не приймає нових акаунтів. Попроси акаунт у його власника.", "此服务器不接受新账号。请向服主申请账号。"],
  "Not linked": ["لم يتم الربط", "Nicht verknüpft", "Cuenta no vinculada", "Compte non associé", "Non collegato", "連携されませんでした", "연동되지 않았어요", "Niet gekoppeld", "Nie połączono", "Não vinculado", "Не привязано", "Bağlanmadı", "Не прив’язано", "未绑定"],
  "It is linked to another account on this server.": ["إنه مربوط بحساب آخر على هذا الخادم.", "Dieses Konto des Anbieters ist mit einem anderen Konto auf diesem Server verknüpft.", "Ya está vinculada a otra cuenta de este servidor.", "Il est déjà associé à un autre compte de ce serveur.", "L’account del provider è collegato a un altro account su questo server.", "このサーバーの別のアカウントと連携されています。", "이 서버의 다른 계정에 연동되어 있어요.", "Dit account van de aanbieder is aan een ander account op deze server gekoppeld.", "To konto dostawcy jest połączone z innym kontem na tym serwerze.", "A conta do provedor está vinculada a outra conta neste servidor.", "Этот способ входа привязан к другому аккаунту на этом сервере.", "Bu giriş yöntemi, bu sunucudaki başka bir hesaba bağlı.", "Цей акаунт сервісу входу прив’язано до іншого акаунта на цьому сервері.", "它已绑定到此服务器上的另一个账号。"],
  "You have an account of that provider linked already. Unlink it first.": ["لديك حساب مربوط لدى هذا المزوّد بالفعل. ألغِ ربطه أولًا.", "Du hast schon ein Konto dieses Anbieters verknüpft. Trenne es zuerst.", "Ya tienes vinculada una cuenta de ese proveedor. Desvincúlala primero.", "Un compte de ce fournisseur est déjà associé. Dissocie-le d’abord.", "Hai già collegato un account di quel provider. Prima scollegalo.", "このプロバイダーのアカウントはすでに連携されています。先に連携を解除してください。", "이 로그인 서비스의 다른 계정이 이미 연동되어 있어요. 먼저 그 연동을 해제하세요.", "Je hebt al een account van die aanbieder gekoppeld. Ontkoppel dat eerst.", "Masz już połączone konto tego dostawcy. Najpierw je odłącz.", "Você já tem uma conta desse provedor vinculada. Primeiro desvincule-a.", "У вас уже привязан аккаунт этого сервиса входа. Сначала отвяжите его.", "Bu sağlayıcıdaki bir hesabınız zaten bağlı. Önce onun bağlantısını kaldırın.", "У тебе вже прив’язано акаунт цього сервісу входу. Спершу відв’яжи його.", "你已绑定该登录平台的一个账号。请先解绑。"],
  "You cannot play here": ["لا يمكنك اللعب هنا", "Du kannst hier nicht spielen", "No puedes jugar aquí", "Tu ne peux pas jouer ici", "Qui non puoi giocare", "ここではプレイできません", "여기서 플레이할 수 없어요", "Je kunt hier niet spelen", "Nie możesz tu grać", "Você não pode jogar aqui", "Вы не можете здесь играть", "Burada oynayamazsınız", "Ти не можеш тут грати", "你无法在这里游玩"],
  "You are blocked. Ask the owner of this server.": ["أنت محظور. اسأل مالك هذا الخادم.", "Du bist gesperrt. Frag den Besitzer dieses Servers.", "Tu cuenta está bloqueada. Pregunta al propietario de este servidor.", "Ton compte est bloqué. Adresse-toi au propriétaire de ce serveur.", "Il tuo account è bloccato. Chiedi al proprietario di questo server.", "ブロックされています。このサーバーの管理者に問い合わせてください。", "차단됐어요. 이 서버의 소유자에게 문의하세요.", "Je bent geblokkeerd. Vraag het de eigenaar van deze server.", "Twój dostęp jest zablokowany. Zapytaj właściciela tego serwera.", "Sua conta está bloqueada. Fale com o dono deste servidor.", "Вы заблокированы. Обратитесь к владельцу сервера.", "Engellendiniz. Bu sunucunun sahibine danışın.", "Тебе заблоковано. Звернися до власника сервера.", "你已被封禁。请联系服主。"],
  "Waiting for the owner": ["بانتظار المالك", "Warten auf den Besitzer", "Esperando al propietario", "En attente du propriétaire", "In attesa del proprietario", "管理者の承認待ち", "서버 소유자를 기다리는 중", "Wachten op de eigenaar", "Oczekiwanie na właściciela", "Aguardando o dono", "Ждём решения владельца", "Sunucu sahibi bekleniyor", "Чекаємо на рішення власника", "等待服主批准"],
  "The owner of this server must approve you first. After that, sign in again.": ["يجب أن يوافق عليك مالك هذا الخادم أولًا. بعد ذلك سجّل الدخول مرة أخرى.", "Der Besitzer dieses Servers muss dich zuerst freigeben. Melde dich danach erneut an.", "El propietario de este servidor tiene que aprobar primero tu cuenta. Después, vuelve a iniciar sesión.", "Le propriétaire de ce serveur doit d’abord approuver ton compte. Ensuite, reconnecte-toi.", "Prima il proprietario di questo server deve approvarti. Dopo, accedi di nuovo.", "先にこのサーバーの管理者の承認が必要です。その後、もう一度サインインしてください。", "먼저 이 서버의 소유자가 승인해야 해요. 승인된 뒤 다시 로그인하세요.", "De eigenaar van deze server moet je eerst goedkeuren. Log daarna opnieuw in.", "Właściciel tego serwera musi cię najpierw zatwierdzić. Potem zaloguj się ponownie.", "O dono deste servidor precisa aprovar você primeiro. Depois disso, entre de novo.", "Сначала владелец сервера должен одобрить ваш аккаунт. После этого войдите снова.", "Önce bu sunucunun sahibi sizi onaylamalı. Ardından yeniden giriş yapın.", "Спершу власник сервера має схвалити твій акаунт. Після цього ввійди знову.", "需要先经服主批准。批准后请重新登录。"],
  "The sign-in was cancelled at the provider.": ["أُلغي تسجيل الدخول لدى المزوّد.", "Die Anmeldung wurde beim Anbieter abgebrochen.", "El inicio de sesión se canceló en el proveedor.", "La connexion a été annulée chez le fournisseur.", "L’accesso è stato annullato presso il provider.", "プロバイダーでサインインがキャンセルされました。", "로그인 서비스에서 로그인이 취소됐어요.", "Het inloggen is bij de aanbieder geannuleerd.", "Logowanie zostało anulowane u dostawcy.", "O login foi cancelado no provedor.", "Вход отменён на стороне сервиса входа.", "Giriş, sağlayıcıda iptal edildi.", "Вхід скасовано на боці сервісу входу.", "登录在登录平台上被取消。"],
  "The sign-in was declined.": ["رُفض تسجيل الدخول.", "Die Anmeldung wurde abgelehnt.", "El inicio de sesión se rechazó.", "La connexion a été refusée.", "L’accesso è stato rifiutato.", "サインインは拒否されました。", "로그인이 거부됐어요.", "Het inloggen is geweigerd.", "Logowanie zostało odrzucone.", "O login foi recusado.", "Вход отклонён.", "Giriş reddedildi.", "Вхід відхилено.", "登录被拒绝。"],
  "The provider does not answer": ["المزوّد لا يستجيب", "Der Anbieter antwortet nicht", "El proveedor no responde", "Le fournisseur ne répond pas", "Il provider non risponde", "プロバイダーが応答しません", "로그인 서비스가 응답하지 않아요", "De aanbieder reageert niet", "Dostawca nie odpowiada", "O provedor não responde", "Сервис входа не отвечает", "Sağlayıcı yanıt vermiyor", "Сервіс входу не відповідає", "登录平台没有响应"],
  "It cannot be reached right now. Try again in a few minutes.": ["لا يمكن الوصول إليه الآن. حاول مرة أخرى بعد دقائق.", "Er ist gerade nicht zu erreichen. Versuche es in ein paar Minuten noch einmal.", "Ahora mismo no se puede contactar con él. Inténtalo de nuevo en unos minutos.", "Il est injoignable pour le moment. Réessaie dans quelques minutes.", "Al momento non è raggiungibile. Riprova tra qualche minuto.", "今は接続できません。数分後にもう一度お試しください。", "지금은 연결할 수 없어요. 몇 분 후에 다시 시도하세요.", "De aanbieder is nu niet bereikbaar. Probeer het over een paar minuten opnieuw.", "Dostawca jest teraz nieosiągalny. Spróbuj ponownie za kilka minut.", "Não é possível contatá-lo agora. Tente de novo em alguns minutos.", "Сейчас он недоступен. Попробуйте ещё раз через несколько минут.", "Şu anda ulaşılamıyor. Birkaç dakika sonra yeniden deneyin.", "Зараз він недоступний. Спробуй ще раз через кілька хвилин.", "目前无法连接。请几分钟后再试。"],
  "The provider's answer was wrong": ["كان ردّ المزوّد خاطئًا", "Die Antwort des Anbieters war falsch", "La respuesta del proveedor no fue correcta", "La réponse du fournisseur est incorrecte", "La risposta del provider non era corretta", "プロバイダーの応答が正しくありませんでした", "로그인 서비스의 응답이 잘못됐어요", "Het antwoord van de aanbieder klopt niet", "Odpowiedź dostawcy była nieprawidłowa", "A resposta do provedor estava errada", "Неверный ответ сервиса входа", "Sağlayıcının yanıtı hatalıydı", "Неправильна відповідь сервісу входу", "登录平台的响应有误"],
  "Try again. If it happens again, tell the owner of this server.": ["حاول مرة أخرى. إن تكرر ذلك، فأخبر مالك هذا الخادم.", "Versuche es noch einmal. Passiert es wieder, sag dem Besitzer dieses Servers Bescheid.", "Inténtalo de nuevo. Si vuelve a pasar, avisa al propietario de este servidor.", "Réessaie. Si cela se reproduit, préviens le propriétaire de ce serveur.", "Riprova. Se succede di nuovo, avvisa il proprietario di questo server.", "もう一度お試しください。また起きる場合は、このサーバーの管理者に知らせてください。", "다시 시도하세요. 또 같은 일이 생기면 이 서버의 소유자에게 알려 주세요.", "Probeer het opnieuw. Gebeurt het weer, laat het dan de eigenaar van deze server weten.", "Spróbuj ponownie. Jeśli to się powtórzy, powiadom właściciela tego serwera.", "Tente de novo. Se isso se repetir, avise o dono deste servidor.", "Попробуйте ещё раз. Если это повторится, сообщите владельцу сервера.", "Yeniden deneyin. Tekrar olursa bu sunucunun sahibine haber verin.", "Спробуй ще раз. Якщо це повториться, повідом власника сервера.", "请再试一次。如果再次出现，请告知服主。"],
  "This way to sign in is not ready": ["طريقة تسجيل الدخول هذه غير جاهزة", "Dieser Anmeldeweg ist nicht bereit", "Esta forma de iniciar sesión no está lista", "Ce moyen de connexion n’est pas prêt", "Questo metodo di accesso non è pronto", "このサインイン方法は準備できていません", "이 로그인 방법은 준비되지 않았어요", "Deze inlogmethode is niet gereed", "Ta metoda logowania nie jest gotowa", "Este método de login não está pronto", "Этот способ входа не готов", "Bu giriş yöntemi hazır değil", "Цей спосіб входу не готовий", "此登录方式尚未就绪"],
  "It is not set up correctly. Please tell the owner of this server.": ["لم تُضبط بشكل صحيح. أخبر مالك هذا الخادم.", "Er ist nicht richtig eingerichtet. Bitte sag dem Besitzer dieses Servers Bescheid.", "No está bien configurada. Por favor, avisa al propietario de este servidor.", "Il n’est pas configuré correctement. Merci de prévenir le propriétaire de ce serveur.", "Non è configurato correttamente. Avvisa il proprietario di questo server.", "正しく設定されていません。このサーバーの管理者に知らせてください。", "올바르게 설정되지 않았어요. 이 서버의 소유자에게 알려 주세요.", "De methode is niet goed ingesteld. Laat het de eigenaar van deze server weten.", "Nie jest poprawnie skonfigurowana. Powiadom właściciela tego serwera.", "Ele não está configurado corretamente. Avise o dono deste servidor.", "Он настроен неправильно. Пожалуйста, сообщите об этом владельцу сервера.", "Doğru ayarlanmamış. Lütfen bu sunucunun sahibine haber verin.", "Його налаштовано неправильно. Будь ласка, повідом про це власника сервера.", "它未正确配置。请告知服主。"],
  "The server's clock is wrong": ["ساعة الخادم خاطئة", "Die Uhr des Servers geht falsch", "La hora del servidor es incorrecta", "L’horloge du serveur n’est pas à l’heure", "L’orologio del server è sbagliato", "サーバーの時計がずれています", "서버의 시계가 맞지 않아요", "De klok van de server staat verkeerd", "Zegar serwera wskazuje zły czas", "O relógio do servidor está errado", "На сервере неверное время", "Sunucunun saati yanlış", "На сервері неправильний час", "服务器时钟有误"],
  "Nobody can sign in until it is set right. Please tell the owner of this server.": ["لا يمكن لأحد تسجيل الدخول حتى تُضبط. أخبر مالك هذا الخادم.", "Niemand kann sich anmelden, bis sie richtig gestellt ist. Bitte sag dem Besitzer dieses Servers Bescheid.", "Nadie puede iniciar sesión hasta que se corrija. Por favor, avisa al propietario de este servidor.", "Personne ne peut se connecter tant qu’elle n’est pas remise à l’heure. Merci de prévenir le propriétaire de ce serveur.", "Nessuno può accedere finché non viene regolato. Avvisa il proprietario di questo server.", "時計が直るまで、誰もサインインできません。このサーバーの管理者に知らせてください。", "시계를 바로잡을 때까지 아무도 로그인할 수 없어요. 이 서버의 소유자에게 알려 주세요.", "Niemand kan inloggen tot de klok goed is gezet. Laat het de eigenaar van deze server weten.", "Dopóki nie zostanie poprawnie ustawiony, nikt nie może się zalogować. Powiadom właściciela tego serwera.", "Ninguém pode entrar até que ele seja acertado. Avise o dono deste servidor.", "Никто не сможет войти, пока время не исправят. Пожалуйста, сообщите об этом владельцу сервера.", "Saat düzeltilene kadar kimse giriş yapamaz. Lütfen bu sunucunun sahibine haber verin.", "Ніхто не зможе ввійти, доки час не виправлять. Будь ласка, повідом про це власника сервера.", "在时钟校正之前，任何人都无法登录。请告知服主。"],
  "This sign-in has expired": ["انتهت مهلة تسجيل الدخول هذا", "Diese Anmeldung ist abgelaufen", "Este inicio de sesión caducó", "Cette connexion a expiré", "Questo accesso è scaduto", "このサインインは期限切れです", "이 로그인은 만료됐어요", "Deze inlogpoging is verlopen", "To logowanie wygasło", "Este login expirou", "Время на вход истекло", "Bu girişin süresi doldu", "Час на вхід вичерпано", "此次登录已过期"],
  "It took too long. Try again.": ["استغرق وقتًا طويلًا. حاول مرة أخرى.", "Es hat zu lange gedauert. Versuche es noch einmal.", "Tardó demasiado. Inténtalo de nuevo.", "Cela a pris trop de temps. Réessaie.", "Ci è voluto troppo tempo. Riprova.", "時間がかかりすぎました。もう一度お試しください。", "시간이 너무 오래 걸렸어요. 다시 시도하세요.", "Het duurde te lang. Probeer het opnieuw.", "Trwało to zbyt długo. Spróbuj ponownie.", "Demorou demais. Tente de novo.", "Прошло слишком много времени. Попробуйте ещё раз.", "Çok uzun sürdü. Yeniden deneyin.", "Минуло забагато часу. Спробуй ще раз.", "耗时过长。请再试一次。"],
  "The server was interrupted": ["انقطع عمل الخادم", "Der Server wurde unterbrochen", "El servidor sufrió una interrupción", "Le serveur a été interrompu", "Il server è stato interrotto", "サーバーが中断しました", "서버가 중단됐어요", "De server werd onderbroken", "Praca serwera została przerwana", "O servidor foi interrompido", "Сервер прервал работу", "Sunucu kesintiye uğradı", "Сервер перервав роботу", "服务器曾中断"],
  "It is back now. Try again.": ["عاد الآن. حاول مرة أخرى.", "Er ist wieder da. Versuche es noch einmal.", "Ya vuelve a funcionar. Inténtalo de nuevo.", "Il fonctionne de nouveau. Réessaie.", "Ora è di nuovo attivo. Riprova.", "復旧しました。もう一度お試しください。", "이제 다시 작동해요. 다시 시도하세요.", "De server is er weer. Probeer het opnieuw.", "Serwer znów działa. Spróbuj ponownie.", "Ele já voltou. Tente de novo.", "Он снова работает. Попробуйте ещё раз.", "Sunucu yeniden çalışıyor. Yeniden deneyin.", "Він знову працює. Спробуй ще раз.", "服务器现已恢复。请再试一次。"],
  "The sign-in was cancelled.": ["أُلغي تسجيل الدخول.", "Die Anmeldung wurde abgebrochen.", "El inicio de sesión se canceló.", "La connexion a été annulée.", "L’accesso è stato annullato.", "サインインはキャンセルされました。", "로그인이 취소됐어요.", "Het inloggen is geannuleerd.", "Logowanie zostało anulowane.", "O login foi cancelado.", "Вход отменён.", "Giriş iptal edildi.", "Вхід скасовано.", "登录已取消。"],
  "This sign-in did not work. Try again in a moment.": ["لم ينجح تسجيل الدخول هذا. حاول مرة أخرى بعد لحظة.", "Diese Anmeldung hat nicht geklappt. Versuche es gleich noch einmal.", "Este inicio de sesión no funcionó. Inténtalo de nuevo en un momento.", "Cette connexion n’a pas fonctionné. Réessaie dans un instant.", "Questo accesso non è riuscito. Riprova tra un momento.", "サインインできませんでした。少ししてからもう一度お試しください。", "로그인하지 못했어요. 잠시 후 다시 시도하세요.", "Het inloggen is niet gelukt. Probeer het zo meteen opnieuw.", "To logowanie się nie powiodło. Spróbuj ponownie za chwilę.", "Este login não funcionou. Tente de novo em instantes.", "Войти не удалось. Попробуйте ещё раз чуть позже.", "Bu giriş başarısız oldu. Birazdan yeniden deneyin.", "Увійти не вдалося. Спробуй ще раз трохи згодом.", "此次登录未成功。请稍后再试。"],
  "You were signed out in the meantime, or the password was changed. Sign in again.": ["سُجّل خروجك في هذه الأثناء، أو تغيّرت كلمة المرور. سجّل الدخول مرة أخرى.", "Du wurdest inzwischen abgemeldet, oder das Passwort wurde geändert. Melde dich erneut an.", "Mientras tanto se cerró tu sesión o se cambió la contraseña. Vuelve a iniciar sesión.", "Entre-temps, ta session a été fermée ou le mot de passe a été modifié. Reconnecte-toi.", "Nel frattempo la tua sessione è terminata oppure la password è stata cambiata. Accedi di nuovo.", "その間にサインアウトされたか、パスワードが変更されました。もう一度サインインしてください。", "그사이에 로그아웃됐거나 비밀번호가 변경됐어요. 다시 로그인하세요.", "Je bent intussen uitgelogd, of het wachtwoord is gewijzigd. Log opnieuw in.", "W międzyczasie wylogowano cię albo zmieniono hasło. Zaloguj się ponownie.", "Nesse meio-tempo, sua sessão foi encerrada ou a senha foi alterada. Entre de novo.", "За это время был выполнен выход из аккаунта или изменён пароль. Войдите снова.", "Bu arada oturumunuz kapatıldı ya da şifre değiştirildi. Yeniden giriş yapın.", "Тим часом було виконано вихід з акаунта або змінено пароль. Увійди знову.", "在此期间你已被登出，或密码已更改。请重新登录。"],
  "The server is very busy at the moment. Try again in a minute.": ["الخادم مشغول جدًا الآن. حاول مرة أخرى بعد دقيقة.", "Der Server hat gerade viel zu tun. Versuche es in einer Minute noch einmal.", "El servidor está muy ocupado en este momento. Inténtalo de nuevo en un minuto.", "Le serveur est très occupé en ce moment. Réessaie dans une minute.", "Il server è molto occupato in questo momento. Riprova tra un minuto.", "今、サーバーが混み合っています。1分ほどしてからもう一度お試しください。", "지금 서버가 많이 바빠요. 1분 후에 다시 시도하세요.", "De server heeft het nu erg druk. Probeer het over een minuut opnieuw.", "Serwer jest teraz bardzo zajęty. Spróbuj ponownie za minutę.", "O servidor está muito ocupado no momento. Tente de novo em um minuto.", "Сейчас сервер сильно загружен. Попробуйте ещё раз через минуту.", "Sunucu şu anda çok yoğun. Bir dakika sonra yeniden deneyin.", "Сервер зараз дуже зайнятий. Спробуй ще раз через хвилину.", "服务器目前很忙。请一分钟后再试。"],
  "There is no server for this game at this address. Check the address.": ["لا يوجد خادم لهذه اللعبة في هذا العنوان. تحقق من العنوان.", "Unter dieser Adresse gibt es keinen Server für dieses Spiel. Prüfe die Adresse.", "No hay ningún servidor para este juego en esta dirección. Comprueba la dirección.", "Il n’y a aucun serveur pour ce jeu à cette adresse. Vérifie l’adresse.", "A questo indirizzo non c’è nessun server per questo gioco. Controlla l’indirizzo.", "このアドレスに、このゲームのサーバーはありません。アドレスを確認してください。", "이 주소에는 이 게임의 서버가 없어요. 주소를 확인하세요.", "Er is op dit adres geen server voor deze game. Controleer het adres.", "Pod tym adresem nie ma serwera tej gry. Sprawdź adres.", "Não há nenhum servidor para este jogo neste endereço. Confira o endereço.", "По этому адресу нет сервера для этой игры. Проверьте адрес.", "Bu adreste bu oyun için bir sunucu yok. Adresi kontrol edin.", "За цією адресою немає сервера для цієї гри. Перевір адресу.", "此地址没有该游戏的服务器。请检查地址。"],
  "This game cannot store anything on this device. Free some space, then try again.": ["لا تستطيع هذه اللعبة تخزين أي شيء على هذا الجهاز. أفرغ بعض المساحة ثم حاول مرة أخرى.", "Dieses Spiel kann auf diesem Gerät nichts speichern. Schaffe etwas Platz und versuche es dann noch einmal.", "Este juego no puede guardar nada en este dispositivo. Libera espacio e inténtalo de nuevo.", "Ce jeu ne peut rien enregistrer sur cet appareil. Libère de la place, puis réessaie.", "Questo gioco non riesce a memorizzare nulla su questo dispositivo. Libera un po’ di spazio, poi riprova.", "このゲームは、この端末に何も保存できません。空き容量を増やしてから、もう一度お試しください。", "게임이 이 기기에 아무것도 저장할 수 없어요. 공간을 확보한 뒤 다시 시도하세요.", "Deze game kan niets opslaan op dit apparaat. Maak wat ruimte vrij en probeer het dan opnieuw.", "Ta gra nie może niczego zapisać na tym urządzeniu. Zwolnij trochę miejsca, a potem spróbuj ponownie.", "Este jogo não consegue armazenar nada neste dispositivo. Libere espaço e tente de novo.", "Эта игра ничего не может сохранить на этом устройстве. Освободите место, затем попробуйте ещё раз.", "Bu oyun bu cihaza hiçbir şey kaydedemiyor. Biraz yer açın, sonra yeniden deneyin.", "Ця гра не може нічого зберегти на цьому пристрої. Звільни трохи місця, а потім спробуй ще раз.", "此游戏无法在这台设备上存储内容。请释放一些空间，然后再试一次。"],
  "The server does not answer. Check the connection, or try again later.": ["الخادم لا يستجيب. تحقق من الاتصال، أو حاول مرة أخرى لاحقًا.", "Der Server antwortet nicht. Prüfe die Verbindung, oder versuche es später noch einmal.", "El servidor no responde. Comprueba la conexión o inténtalo de nuevo más tarde.", "Le serveur ne répond pas. Vérifie la connexion réseau, ou réessaie plus tard.", "Il server non risponde. Controlla la connessione o riprova più tardi.", "サーバーが応答しません。接続を確認するか、あとでもう一度お試しください。", "서버가 응답하지 않아요. 연결을 확인하거나 나중에 다시 시도하세요.", "De server reageert niet. Controleer de verbinding of probeer het later opnieuw.", "Serwer nie odpowiada. Sprawdź połączenie albo spróbuj ponownie później.", "O servidor não responde. Confira a conexão ou tente de novo mais tarde.", "Сервер не отвечает. Проверьте подключение или попробуйте ещё раз позже.", "Sunucu yanıt vermiyor. Ağ bağlantısını kontrol edin ya da daha sonra yeniden deneyin.", "Сервер не відповідає. Перевір з’єднання або спробуй ще раз пізніше.", "服务器没有响应。请检查网络连接，或稍后再试。"],
  "The connection to this server is not safe: its certificate is not valid. Tell the owner of this server.": ["الاتصال بهذا الخادم غير آمن: شهادته غير صالحة. أخبر مالك هذا الخادم.", "Die Verbindung zu diesem Server ist nicht sicher: Sein Zertifikat ist nicht gültig. Sag dem Besitzer dieses Servers Bescheid.", "La conexión con este servidor no es segura: su certificado no es válido. Avisa al propietario de este servidor.", "La connexion à ce serveur n’est pas sûre : son certificat n’est pas valide. Préviens le propriétaire de ce serveur.", "La connessione a questo server non è sicura: il certificato del server non è valido. Avvisa il proprietario di questo server.", "このサーバーへの接続は安全ではありません。サーバーの証明書が無効です。このサーバーの管理者に知らせてください。", "이 서버와의 연결이 안전하지 않아요. 서버의 인증서가 유효하지 않아요. 이 서버의 소유자에게 알려 주세요.", "De verbinding met deze server is niet veilig: het certificaat is niet geldig. Laat het de eigenaar van deze server weten.", "Połączenie z tym serwerem nie jest bezpieczne: jego certyfikat jest nieprawidłowy. Powiadom właściciela tego serwera.", "A conexão com este servidor não é segura: o certificado dele não é válido. Avise o dono deste servidor.", "Подключение к этому серверу небезопасно: его сертификат недействителен. Сообщите об этом владельцу сервера.", "Bu sunucuyla bağlantı güvenli değil: Sunucunun sertifikası geçersiz. Bu sunucunun sahibine haber verin.", "З’єднання з цим сервером небезпечне: його сертифікат недійсний. Повідом про це власника сервера.", "与此服务器的连接不安全：其证书无效。请告知服主。"],
  "This game is running already, with the same saves.": ["هذه اللعبة تعمل بالفعل، بملفات الحفظ نفسها.", "Dieses Spiel läuft schon, mit denselben Spielständen.", "Este juego ya está abierto, con las mismas partidas guardadas.", "Ce jeu est déjà lancé, avec les mêmes sauvegardes.", "Questo gioco è già in esecuzione, con gli stessi salvataggi.", "このゲームは、同じセーブデータですでに起動しています。", "이 게임이 같은 저장 데이터로 이미 실행 중이에요.", "Deze game draait al, met dezelfde savegames.", "Ta gra jest już uruchomiona i używa tych samych zapisów.", "Este jogo já está em execução, com os mesmos saves.", "Эта игра уже запущена с теми же сохранениями.", "Bu oyun aynı kayıtlarla zaten çalışıyor.", "Ця гра вже запущена й використовує ті самі збереження.", "此游戏已在运行，且使用相同的存档。"],
  "The server cannot reach its data. Please tell its owner, and try again later.": ["لا يستطيع الخادم الوصول إلى بياناته. أخبر مالكه، ثم حاول مرة أخرى لاحقًا.", "Der Server erreicht seine Daten nicht. Bitte sag seinem Besitzer Bescheid und versuche es später noch einmal.", "El servidor no puede acceder a sus datos. Por favor, avisa a su propietario e inténtalo de nuevo más tarde.", "Le serveur n’a pas accès à ses données. Merci de prévenir son propriétaire et de réessayer plus tard.", "Il server non riesce a raggiungere i suoi dati. Avvisa il proprietario e riprova più tardi.", "サーバーがデータに接続できません。管理者に知らせて、あとでもう一度お試しください。", "서버가 데이터에 접근할 수 없어요. 서버 소유자에게 알리고 나중에 다시 시도하세요.", "De server kan niet bij zijn gegevens. Laat het de eigenaar weten en probeer het later opnieuw.", "Serwer nie ma dostępu do swoich danych. Powiadom jego właściciela i spróbuj ponownie później.", "O servidor não consegue acessar os dados dele. Avise o dono e tente de novo mais tarde.", "Сервер не может получить доступ к своим данным. Пожалуйста, сообщите об этом его владельцу и попробуйте ещё раз позже.", "Sunucu verilerine ulaşamıyor. Lütfen sunucu sahibine haber verin ve daha sonra yeniden deneyin.", "Сервер не може отримати доступ до своїх даних. Будь ласка, повідом про це його власника та спробуй ще раз пізніше.", "服务器无法访问其数据。请告知服主，并稍后再试。"],
  "Nothing more can be stored. Please tell the owner of this server.": ["لا يمكن حفظ المزيد. أخبر مالك هذا الخادم.", "Mehr kann nicht gespeichert werden. Bitte sag dem Besitzer dieses Servers Bescheid.", "No se puede guardar nada más. Por favor, avisa al propietario de este servidor.", "Plus rien ne peut être enregistré. Merci de prévenir le propriétaire de ce serveur.", "Non c’è più spazio per salvare altro. Avvisa il proprietario di questo server.", "これ以上保存できません。このサーバーの管理者に知らせてください。", "더 이상 저장할 수 없어요. 이 서버의 소유자에게 알려 주세요.", "Er kan niets meer worden opgeslagen. Laat het de eigenaar van deze server weten.", "Nie można zapisać nic więcej. Powiadom właściciela tego serwera.", "Não é possível armazenar mais nada. Avise o dono deste servidor.", "Больше ничего нельзя сохранить. Пожалуйста, сообщите об этом владельцу сервера.", "Daha fazla veri saklanamıyor. Lütfen bu sunucunun sahibine haber verin.", "Більше нічого не можна зберегти. Будь ласка, повідом про це власника сервера.", "无法再存储更多内容。请告知服主。"],
  "The server made a mistake. If it happens again, tell the owner of this server.": ["أخطأ الخادم. إن تكرر ذلك، فأخبر مالك هذا الخادم.", "Der Server hat einen Fehler gemacht. Passiert es wieder, sag dem Besitzer dieses Servers Bescheid.", "El servidor cometió un error. Si vuelve a pasar, avisa al propietario de este servidor.", "Le serveur a rencontré une erreur. Si cela se reproduit, préviens le propriétaire de ce serveur.", "Il server ha commesso un errore. Se succede di nuovo, avvisa il proprietario di questo server.", "サーバーでエラーが起きました。また起きる場合は、このサーバーの管理者に知らせてください。", "서버에서 오류가 발생했어요. 또 같은 일이 생기면 이 서버의 소유자에게 알려 주세요.", "De server heeft een fout gemaakt. Gebeurt het weer, laat het dan de eigenaar van deze server weten.", "Serwer popełnił błąd. Jeśli to się powtórzy, powiadom właściciela tego serwera.", "O servidor cometeu um erro. Se isso se repetir, avise o dono deste servidor.", "На сервере произошла ошибка. Если это повторится, сообщите владельцу сервера.", "Sunucu bir hata yaptı. Tekrar olursa bu sunucunun sahibine haber verin.", "На сервері сталася помилка. Якщо це повториться, повідом власника сервера.", "服务器出错了。如果再次出现，请告知服主。"],
}
/** @type {Record<string, string[]>} */
const PROBLEMS = {
  "registration_closed": ["You are not signed in", "This server takes no new accounts. Ask its owner for one."],
  "identity_in_use": ["Not linked", "It is linked to another account on this server."],
  "provider_already_linked": ["Not linked", "You have an account of that provider linked already. Unlink it first."],
  "player_blocked": ["You cannot play here", "You are blocked. Ask the owner of this server."],
  "player_pending": ["Waiting for the owner", "The owner of this server must approve you first. After that, sign in again."],
  "provider_denied": ["You are not signed in", "The sign-in was cancelled at the provider."],
  "login_denied": ["You are not signed in", "The sign-in was declined."],
  "provider_unavailable": ["The provider does not answer", "It cannot be reached right now. Try again in a few minutes."],
  "provider_error": ["The provider's answer was wrong", "Try again. If it happens again, tell the owner of this server."],
  "provider_misconfigured": ["This way to sign in is not ready", "It is not set up correctly. Please tell the owner of this server."],
  "server_clock_skew": ["The server's clock is wrong", "Nobody can sign in until it is set right. Please tell the owner of this server."],
  "login_expired": ["This sign-in has expired", "It took too long. Try again."],
  "login_interrupted": ["The server was interrupted", "It is back now. Try again."],
  "login_cancelled": ["The sign-in was cancelled."],
  "proof_attempts_exceeded": ["You are not signed in", "This sign-in did not work. Try again in a moment."],
  "session_revoked": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "signed_out": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "token_missing": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "token_expired": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "token_invalid": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "refresh_expired": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "refresh_reused": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "refresh_invalid": ["You are not signed in", "You were signed out in the meantime, or the password was changed. Sign in again."],
  "busy": ["The server is very busy at the moment. Try again in a minute."],
  "shutting_down": ["The server is very busy at the moment. Try again in a minute."],
  "unhealthy": ["The server is very busy at the moment. Try again in a minute."],
  "rate_limited": ["The server is very busy at the moment. Try again in a minute."],
  "not_gamed": ["There is no server for this game at this address. Check the address."],
  "untrusted_address": ["There is no server for this game at this address. Check the address."],
  "local_disk": ["This game cannot store anything on this device. Free some space, then try again."],
  "disk_full": ["This game cannot store anything on this device. Free some space, then try again."],
  "unreachable": ["The server does not answer. Check the connection, or try again later."],
  "untrusted_certificate": ["The connection to this server is not safe: its certificate is not valid. Tell the owner of this server."],
  "in_use": ["This game is running already, with the same saves."],
  "store_unavailable": ["The server cannot reach its data. Please tell its owner, and try again later."],
  "storage_full": ["Nothing more can be stored. Please tell the owner of this server."],
  "internal_error": ["The server made a mistake. If it happens again, tell the owner of this server."],
}
// End of what clients/texts.py made

/** The texts in one language. */
export class Texts {
  #language

  /**
   * Choose a language; English if there are no texts in it.
   *
   * @param {string} [locale] the game's, such as "de" or "pt-BR"; the system's by default
   */
  constructor(locale = systemLocale()) {
    this.#language = numberOf(localeTag(locale).toLowerCase())
  }

  /** The language, for the attribute `lang`. @returns {string} */
  get tag() {
    return NAMES[this.#language] ?? "en"
  }

  /** The direction of its script, for the attribute `dir`. @returns {"ltr" | "rtl"} */
  get direction() {
    return RIGHT_TO_LEFT.includes(this.#language) ? "rtl" : "ltr"
  }

  /**
   * Return a text of the dialogs with its values.
   *
   * @param {string} english the text in English, such as "Sign in with {provider}"
   * @param {{ [name: string]: string | number }} [values] for the names in braces
   * @returns {string}
   */
  text(english, values = {}) {
    const found = this.#translated(english) || english
    return found.replace(/\{(\w+)\}/g, (_, name) => this.#isolated(String(values[name])))
  }

  /**
   * Return what the player reads of an error: its English detail if there is no translation.
   *
   * @param {GamedError} error
   * @returns {string}
   */
  problem(error) {
    const known = Object.hasOwn(PROBLEMS, error.code) ? PROBLEMS[error.code] : [""]
    const lines = known.map((line) => this.#translated(line))
    if (!lines.every(Boolean)) return error.detail
    const number = error.problem.approval_code
    if (/^[0-9]{1,12}$/.test(number)) lines.push(`${this.text("Tell the owner this number:")} ${number}`)
    return lines.join("\n")
  }

  /** @param {string} english */
  #translated(english) {
    return TEXTS[english]?.[this.#language] ?? ""
  }

  /** Keep a value of another direction from turning the text around it. @param {string} value */
  #isolated(value) {
    return this.direction === "rtl" ? `\u2068${value}\u2069` : value
  }
}

/** Return the number of a language, from the closest tag to the most general (RFC 4647, 3.4). @param {string} tag */
function numberOf(tag) {
  for (let rest = tag; rest; rest = rest.slice(0, Math.max(0, rest.lastIndexOf("-")))) {
    if (Object.hasOwn(TAGS, rest)) return TAGS[rest]
  }
  return -1
}
